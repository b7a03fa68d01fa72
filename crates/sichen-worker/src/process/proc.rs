//! What `/proc` says of other processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use nix::unistd::Pid;

/// State, parent and group of a process.
#[derive(Debug, Clone, Copy)]
struct Stat {
    state: char,
    parent: Pid,
    group: Pid,
}

impl Stat {
    fn of(pid: Pid) -> Option<Stat> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold anything; what follows the last one is regular.
        let mut fields = text.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = Pid::from_raw(fields.next()?.parse().ok()?);
        let group = Pid::from_raw(fields.next()?.parse().ok()?);
        Some(Stat {
            state,
            parent,
            group,
        })
    }

    fn lives(self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }
}

fn all_pids() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .map(Pid::from_raw)
}

/// The process group that `pid` is in.
pub(super) fn group_of(pid: Pid) -> Option<Pid> {
    Stat::of(pid).map(|stat| stat.group)
}

/// Living descendants of `ancestor`, itself not among them.
pub(super) fn descendants(ancestor: Pid) -> Vec<Pid> {
    let mut children: BTreeMap<Pid, Vec<Pid>> = BTreeMap::new();
    let mut living = BTreeSet::new();
    for pid in all_pids() {
        if let Some(stat) = Stat::of(pid) {
            children.entry(stat.parent).or_default().push(pid);
            if stat.lives() {
                living.insert(pid);
            }
        }
    }
    let (mut found, mut from) = (Vec::new(), vec![ancestor]);
    while let Some(parent) = from.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            from.push(child);
            if living.contains(&child) {
                found.push(child);
            }
        }
    }
    found
}

/// Living processes, other than ourselves, whose first environment has this entry.
pub(super) fn marked(mark: &str) -> Vec<Pid> {
    let own = nix::unistd::getpid();
    all_pids()
        .filter(|pid| *pid != own)
        .filter(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|entry| entry == mark.as_bytes())
        })
        .filter(|pid| Stat::of(*pid).is_some_and(Stat::lives))
        .collect()
}
