//! The words of a notice: what each rule is about, and what is to be done, in English and Chinese.
//!
//! # Not here
//! Which rule and why ([`super::super::judge`]).

use super::super::{Rule, What};
use super::Language;

/// What an alert of `rule` is about.
pub(super) fn about(language: Language, rule: Rule) -> &'static str {
    let (english, chinese) = match rule {
        Rule::Failures => ("runs failed", "运行失败"),
        Rule::Partial => ("runs succeeded in part alone", "运行只有部分成功"),
        Rule::Surge => ("many things fail at once", "许多不同的失败同时发生"),
        Rule::DeadLetters => (
            "shards that failed for good wait for somebody",
            "死信在等人处理",
        ),
        Rule::Slower => ("a run takes longer than usual", "运行比平常慢"),
        Rule::Backlog => (
            "runs that could begin wait, though the pool has workers",
            "池中有工作节点，可以开始的运行却在等待",
        ),
        Rule::NoLease => (
            "shards are held under sessions that are over",
            "分片由已经结束的会话持有",
        ),
        Rule::CapacityExhausted => (
            "all of a capacity is held, and somebody waits",
            "容量已全部被持有，而且有人在等待",
        ),
        Rule::NoOwner => ("duties are in nobody's hands", "职责无人负责"),
        Rule::OwnerFlapping => (
            "duties go from server to server",
            "职责在服务端之间来回转手",
        ),
        Rule::OldTransaction => (
            "a transaction of others holds the database up",
            "别人的事务拖住了数据库",
        ),
        Rule::NotStarted => ("runs did not start in time", "运行没有按时开始"),
        Rule::Missed => (
            "planned instants were missed and will not run",
            "有计划时刻错过且不会再运行",
        ),
        Rule::Late => (
            "planned instants pass undecided",
            "计划时刻过去了还没有决定",
        ),
        Rule::NoSuccess => ("no success for too long", "太久没有成功"),
        Rule::NoWorker => (
            "shards wait and the pool has no worker",
            "分片在等待，而池中没有工作节点",
        ),
        Rule::ClockStep => (
            "the store's clock stepped ahead and firing waits",
            "存储的时钟向前跳变，触发在等待",
        ),
    };
    match language {
        Language::English => english,
        Language::Chinese => chinese,
    }
}

/// What a line begins with.
pub(super) fn head(language: Language, what: What) -> &'static str {
    match (what, language) {
        (What::Raised | What::Widened, _) => "",
        (What::Repeated, Language::English) => "still: ",
        (What::Recovered, Language::English) => "over: ",
        (What::Repeated, Language::Chinese) => "仍在持续：",
        (What::Recovered, Language::Chinese) => "已结束：",
    }
}

/// Where to look first: commands.
#[must_use]
pub fn what_to_do(rule: Rule) -> &'static str {
    match rule {
        Rule::Failures | Rule::Partial | Rule::DeadLetters => "sichen dead-letters",
        Rule::Surge => "sichen alerts; sichen doctor",
        Rule::Slower => "sichen runs JOB; sichen trace RUN",
        Rule::Backlog => "sichen explain RUN; sichen get workers",
        Rule::NoLease => "sichen get workers; sichen doctor",
        Rule::CapacityExhausted => "sichen capacity show NAME",
        Rule::NoOwner | Rule::OwnerFlapping => "sichen get members; sichen doctor",
        Rule::OldTransaction => "sichen doctor",
        Rule::NotStarted => "sichen get runs JOB; sichen get workers",
        Rule::Missed => "sichen audit --all; sichen describe job JOB",
        Rule::Late => "sichen doctor; sichen audit --all",
        Rule::NoSuccess => "sichen describe job JOB",
        Rule::NoWorker => "sichen get workers; sichen explain RUN",
        Rule::ClockStep => "sichen clock show",
    }
}
