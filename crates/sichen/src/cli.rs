//! The command line: its words, and which command carries them out.
//!
//! # Not here
//! Any command ([`crate::command`]).

mod groups;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, CommandFactory, FromArgMatches as _, Parser, Subcommand, ValueEnum as _};
use tracing_subscriber::EnvFilter;

use crate::command::{
    alerts, audit, backfill, backup, calendar, cancel, capacity, clock, completions, config,
    dead_letters, demo, describe, dev, doctor, documents, drill, due, events, explain, fence,
    forecast, get, import, jobs, logs, man, namespace, new, next, ready, report, restore,
    revisions, run, runs, schema, server, shards, token, trace, user, verify, worker,
};
use crate::failure::{Exit, Failure};
use crate::logging;
use crate::names;
use crate::output::{self, Form};

/// Sichen keeps the hours: jobs that run on time, once, and provably to the end.
///
/// Start with `sichen dev`. Exit codes: 0 done, 1 failed, 2 wrong input, 3 no such thing, 4 refused,
/// 5 server unavailable, 6 access denied, 7 time limit passed, 8 fenced and 9 told to stop, both of
/// `report` (docs/cli.md).
#[derive(Debug, Parser)]
#[command(name = "sichen", version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// All commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    Demo(demo::Args),
    #[command(hide = true)]
    DemoWorker(crate::demo::worker::Args),
    Dev(dev::Dev),
    Server(server::Server),
    Worker(worker::Worker),
    #[command(subcommand)]
    New(new::New),
    Apply(documents::Apply),
    Validate(documents::Validate),
    Diff(revisions::Diff),
    Revisions(revisions::Revisions),
    Rollback(revisions::Rollback),
    Run(run::StartArgs),
    #[command(subcommand)]
    Get(get::Get),
    #[command(subcommand)]
    Describe(describe::Describe),
    Runs(runs::Runs),
    Shards(shards::Shards),
    Logs(logs::Logs),
    Events(events::Events),
    Explain(explain::Explain),
    Trace(trace::Trace),
    Cancel(cancel::Cancel),
    Retry(cancel::Retry),
    #[command(subcommand)]
    Backfill(backfill::Command),
    DeadLetters(dead_letters::DeadLetters),
    /// Pause the schedules of a job: planned times are recorded as skipped.
    Pause(jobs::Pause),
    /// Resume the schedules of a job.
    Resume(jobs::Resume),
    /// Delete a job: its name is free again, its open runs go on, its history stays. Or a calendar.
    Delete(jobs::Delete),
    Verify(verify::Verify),
    Doctor(doctor::Doctor),
    Ready(ready::Ready),
    Audit(audit::Audit),
    #[command(subcommand)]
    Drill(drill::Command),
    Export(verify::Export),
    Backup(backup::Backup),
    Restore(restore::Restore),
    Next(next::Args),
    Calendar(calendar::Calendar),
    Forecast(forecast::ForecastArgs),
    #[command(subcommand)]
    Capacity(capacity::Command),
    Due(due::Args),
    #[command(subcommand)]
    Import(import::ImportFrom),
    Report(report::Report),
    #[command(subcommand)]
    Fence(fence::Command),
    Schema(schema::Schema),
    #[command(subcommand)]
    Token(token::Command),
    #[command(subcommand)]
    User(user::Command),
    #[command(subcommand)]
    Namespace(namespace::Command),
    #[command(subcommand)]
    Clock(clock::Clock),
    Alerts(alerts::Alerts),
    Config(config::Config),
    Completions(completions::Completions),
    Man(man::Man),
}

/// The whole program: reads the arguments, runs the command, says how it ended.
pub fn main() -> ExitCode {
    let parsed = fitted(Cli::command()).try_get_matches();
    let (cli, form) = match parsed.and_then(|m| Ok((Cli::from_arg_matches(&m)?, form_of(&m)))) {
        Ok(parsed) => parsed,
        Err(error) => return refuse(&error),
    };
    log_to_stderr(&cli.command);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let ended = match runtime {
        Ok(runtime) => {
            let ended = runtime.block_on(carry_out(cli.command));
            runtime.shutdown_background();
            ended
        }
        Err(error) => Err(error.into()),
    };
    ended.unwrap_or_else(|failure| say_failure(&failure, form))
}

/// The widest that help is, where there is room.
const HELP_WIDTH: u16 = 100;

/// With help that fits the terminal.
fn fitted(command: clap::Command) -> clap::Command {
    let width = output::screen_width().map_or(HELP_WIDTH, |w| w.min(HELP_WIDTH));
    let help = output::prose(&groups::help(&command));
    command.term_width(usize::from(width)).override_help(help)
}

/// Says why the arguments are none of a command, or what was asked about commands.
fn refuse(error: &clap::Error) -> ExitCode {
    if let ErrorKind::DisplayHelp | ErrorKind::DisplayVersion = error.kind() {
        // Nobody reads any more: nothing is lost.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let form = form_among(std::env::args());
    let text = unknown_command(error);
    match (form, text) {
        (Form::Table, None) => {
            let _ = error.print();
            Exit::Usage.into()
        }
        (form, text) => {
            let text = text.unwrap_or_else(|| error.to_string());
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            say_failure(&Failure::usage(text.trim_end()), form)
        }
    }
}

/// The form in which the command was asked to answer; commands without that option answer people.
fn form_of(matches: &ArgMatches) -> Form {
    let mut inner = matches;
    while let Some((_, next)) = inner.subcommand() {
        inner = next;
    }
    let form = inner.try_get_one::<Form>("output");
    form.ok().flatten().copied().unwrap_or_default()
}

/// The same of arguments that make no command.
fn form_among(args: impl Iterator<Item = String>) -> Form {
    let args: Vec<String> = args.take_while(|arg| arg != "--").collect();
    let alone = args.windows(2).filter_map(|pair| match pair {
        [name, value] if name == "-o" || name == "--output" => Some(value.as_str()),
        _ => None,
    });
    let joined = args.iter().filter_map(|arg| {
        arg.strip_prefix("--output=")
            .or_else(|| arg.strip_prefix("-o"))
    });
    let mut forms = alone.chain(joined);
    let form = forms.find_map(|word| Form::from_str(word, true).ok());
    form.unwrap_or_default()
}

/// Commands by the names that other programs have for them.
const ALSO_CALLED: &[(&str, &[&str])] = &[
    (
        "run JOB",
        &["start", "trigger", "exec", "execute", "submit", "fire"],
    ),
    (
        "apply -f FILE",
        &[
            "create", "add", "register", "deploy", "update", "edit", "set",
        ],
    ),
    ("new job", &["scaffold", "generate", "template"]),
    ("cancel RUN", &["stop", "kill", "abort", "terminate"]),
    ("retry RUN", &["rerun", "restart", "reopen"]),
    ("get jobs", &["list", "ls", "jobs"]),
    ("get workers", &["workers", "agents", "executors"]),
    ("runs", &["ps", "history", "executions"]),
    ("describe job JOB", &["show", "job", "inspect", "info"]),
    ("describe run RUN", &["status"]),
    ("delete JOB", &["rm", "remove", "drop"]),
    ("pause JOB", &["suspend", "disable"]),
    ("resume JOB", &["unpause", "enable"]),
    ("logs RUN", &["log", "output", "tail"]),
    ("doctor", &["health", "ping", "diagnose"]),
    ("dev", &["init", "up", "quickstart", "standalone"]),
    ("server", &["serve", "daemon", "master", "scheduler"]),
    ("worker", &["agent", "executor"]),
    ("validate FILE", &["lint"]),
    ("backup FILE", &["dump", "snapshot"]),
    ("next --cron EXPR", &["cron"]),
];

/// What is said of a first word that is no command.
fn unknown_command(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let first = std::env::args().nth(1);
    if first.as_deref() == Some("describe") {
        return Some(undescribed(word));
    }
    // That of another command of a command is well told by the library.
    if first.as_ref() != Some(word) {
        return None;
    }
    let commands = Cli::command();
    let known: Vec<String> = commands
        .get_subcommands()
        .filter(|c| !c.is_hide_set())
        .map(|c| c.get_name().to_owned())
        .collect();
    let also = ALSO_CALLED.iter();
    let also = also.filter(|(_, names)| names.contains(&word.as_str()));
    let mut meant: Vec<&str> = also.map(|(command, _)| *command).collect();
    let same = |name: &&str| !meant.iter().any(|m| m.split(' ').next() == Some(*name));
    let near: Vec<&str> = names::near(word, &known).into_iter().filter(same).collect();
    meant.extend(near);
    let meant: Vec<String> = meant.iter().map(|m| format!("`sichen {m}`")).collect();
    let hint = match meant.is_empty() {
        true => String::new(),
        false => format!("\n  did you mean {}?", meant.join(" or ")),
    };
    Some(format!(
        "there is no command {word:?}{hint}\n  `sichen help` lists them"
    ))
}

/// What is said of `describe NAME`, which does not say what it is that is described.
fn undescribed(word: &str) -> String {
    let kind = match word {
        _ if word.bytes().all(|b| b.is_ascii_digit()) || word.contains(':') => "run",
        _ => "job",
    };
    format!(
        "`describe` wants to know what {word:?} is\n  did you mean `sichen describe {kind} {word}`? there \
         are also `describe calendar NAME`, `describe run RUN`, `describe shard RUN SHARD`"
    )
}

fn say_failure(failure: &Failure, form: Form) -> ExitCode {
    let told = failure.told(form);
    match form {
        Form::Table => output::beside(&output::prose_beside(&told)),
        Form::Json | Form::Yaml => output::beside(&told),
    }
    failure.exit.into()
}

async fn carry_out(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Demo(args) => Ok(demo::run(args).await?),
        Command::DemoWorker(args) => Ok(demo::run_worker(args).await?),
        Command::Dev(args) => dev::run(args).await,
        Command::Server(args) => server::run(args).await,
        Command::Worker(args) => worker::run(args).await,
        Command::New(what) => new::run(what),
        Command::Apply(args) => documents::apply(args).await,
        Command::Diff(args) => revisions::diff(args).await,
        Command::Revisions(args) => revisions::list(args).await,
        Command::Rollback(args) => revisions::rollback(args).await,
        Command::Validate(args) => documents::validate(&args),
        Command::Run(args) => run::start(args).await,
        Command::Get(what) => get::list(what).await,
        Command::Describe(what) => describe::show(what).await,
        Command::Runs(args) => runs::list(args).await,
        Command::Shards(args) => shards::list(args).await,
        Command::Logs(args) => logs::show(args).await,
        Command::Events(args) => events::show(args).await,
        Command::Explain(args) => explain::show(args).await,
        Command::Trace(args) => trace::show(args).await,
        Command::Cancel(args) => cancel::cancel(args).await,
        Command::Retry(args) => cancel::retry(args).await,
        Command::Backfill(command) => backfill::run(command).await,
        Command::DeadLetters(args) => dead_letters::run(args).await,
        Command::Pause(args) => jobs::pause(args).await,
        Command::Resume(args) => jobs::resume(args).await,
        Command::Delete(args) => jobs::delete(args).await,
        Command::Doctor(args) => doctor::run(args).await,
        Command::Ready(args) => ready::run(args).await,
        Command::Verify(args) => verify::check(args).await,
        Command::Audit(args) => audit::run(args).await,
        Command::Drill(command) => drill::run(command).await,
        Command::Export(args) => verify::export(args).await,
        Command::Backup(args) => backup::run(args).await,
        Command::Restore(args) => restore::run(args).await,
        Command::Next(args) => {
            let mut out = Vec::new();
            let code = match args.job.clone() {
                None => next::run(&args, &mut out)?,
                Some(job) => next::of_job(&args, &job, &mut out).await?,
            };
            let text = String::from_utf8_lossy(&out);
            match args.for_people() {
                true => output::print(&output::prose(&text))?,
                false => output::print(&text)?,
            }
            Ok(code)
        }
        Command::Calendar(args) => calendar::show(args).await,
        Command::Forecast(args) => forecast::show(args).await,
        Command::Capacity(command) => capacity::run(command).await,
        Command::Import(from) => import::run(from).await,
        Command::Due(args) => local(|out| due::run(&args, out)),
        Command::Report(args) => report::say(args).await,
        Command::Fence(command) => Ok(fence::run(command).await?),
        Command::Schema(args) => schema::print(&args),
        Command::Token(command) => token::run(command).await,
        Command::User(command) => user::run(command).await,
        Command::Namespace(command) => namespace::run(command).await,
        Command::Clock(command) => clock::run(command).await,
        Command::Alerts(args) => alerts::run(args).await,
        Command::Config(args) => config::run(args),
        Command::Completions(args) => completions::print(&args),
        Command::Man(args) => man::write(&args),
    }
}

/// A command that needs no server: its answer is written when it is whole.
fn local(
    command: impl FnOnce(&mut dyn std::io::Write) -> anyhow::Result<ExitCode>,
) -> Result<ExitCode, Failure> {
    let mut out = Vec::new();
    let code = command(&mut out)?;
    output::print(&String::from_utf8_lossy(&out))?;
    Ok(code)
}

/// `SICHEN_LOG` chooses what is logged, such as `debug` or `sichen_engine=debug`.
fn log_to_stderr(command: &Command) {
    let serves = matches!(
        command,
        Command::Dev(_) | Command::DemoWorker(_) | Command::Server(_) | Command::Worker(_)
    );
    let default = match command {
        // It makes its database fail, and says so itself.
        Command::Drill(_) => "error",
        _ if serves => logging::DEFAULT,
        _ => "warn",
    };
    let filter = EnvFilter::try_from_env("SICHEN_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    logging::begin(filter);
}

#[cfg(test)]
mod tests;
