//! Claims about the list of commands.

use clap::CommandFactory as _;

use super::*;
use crate::cli::Cli;

#[test]
fn every_command_stands_in_one_group_and_every_line_fits() {
    let command = Cli::command();
    let shown = command.get_subcommands().filter(|c| !c.is_hide_set());
    for name in shown.map(Command::get_name).filter(|name| *name != "help") {
        let groups = GROUPS.iter().filter(|(_, names)| names.contains(&name));
        assert_eq!(groups.count(), 1, "groups of {name}");
    }
    let help = help(&command);
    for (_, names) in GROUPS {
        for name in *names {
            let begin = format!("  {name:<14}");
            let lines = help.lines().filter(|line| line.starts_with(&begin));
            assert_eq!(lines.count(), 1, "{name}");
        }
    }
    for line in help
        .lines()
        .take_while(|line| !line.starts_with("Start with"))
    {
        assert!(line.chars().count() <= 80, "{line}");
    }
}
