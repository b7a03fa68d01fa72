//! `sichen token`: tokens made, listed, taken back.
//!
//! # Invariants
//! - A secret is shown once, alone on the standard output or in a file that its owner alone may read.
//!
//! # Not here
//! Judging them (`sichen-server`).

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use sichen_server::rest::wire::{MadeToken, Me, NewToken, RoleIn, Token, Tokens};

use super::waiting;
use crate::client::{Client, Connection};
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::output::{self, Output};

/// Make, list and take back tokens: for people and programs, with roles, and for workers.
#[derive(Debug, Subcommand)]
pub enum Command {
    Create(Create),
    List(List),
    Revoke(Revoke),
    Whoami(Whoami),
}

/// Make a token. Its secret is shown once.
#[derive(Debug, Args)]
pub struct Create {
    /// Its name; events say `token NAME`.
    #[arg(value_name = "NAME")]
    name: String,
    /// What it may do: viewer sees, operator also starts, stops and retries, editor also changes jobs
    /// and calendars, admin also gives rights.
    #[arg(
        long,
        value_name = "ROLE",
        required_unless_present = "join",
        requires = "namespace"
    )]
    role: Option<Role>,
    /// Where: a namespace, again for more of them; `*` is all, and the cluster as a whole.
    #[arg(long, value_name = "NAMESPACE", requires = "role")]
    namespace: Vec<String>,
    /// Instead of asking the API, it lets workers of this pool join.
    #[arg(long, value_name = "POOL", conflicts_with = "role")]
    join: Option<String>,
    /// With --join: a handler that such a worker may have, again for more [default: any].
    #[arg(long, value_name = "HANDLER", requires = "join")]
    handler: Vec<String>,
    /// With --join: a name that such a worker may have, or with a `*` at its end the beginning of one, again
    /// for more [default: any]. Workers that are bound so can't be taken for each other.
    #[arg(long, value_name = "NAME", requires = "join")]
    worker: Vec<String>,
    /// How long it lasts, such as 90d or 12h; `never` has no end.
    #[arg(long, value_name = "LENGTH")]
    expires: String,
    /// Write the secret to this new file instead of showing it.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// A role.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Role {
    Viewer,
    Operator,
    Editor,
    Admin,
}

impl Role {
    pub(super) fn word(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Editor => "editor",
            Role::Admin => "admin",
        }
    }
}

/// List tokens, those that are over too. No secret is shown.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// Take a token back: it opens nothing any more, everywhere within 2 seconds.
#[derive(Debug, Args)]
pub struct Revoke {
    /// Its name.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// Show whose token this command line has, and what it may do.
#[derive(Debug, Args)]
pub struct Whoami {
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// Carries out `sichen token`.
pub async fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Create(args) => create(&args).await?,
        Command::List(args) => list(&args).await?,
        Command::Revoke(args) => revoke(&args).await?,
        Command::Whoami(args) => whoami(&args).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The instant at which a token of this length is over.
fn end(length: &str) -> Result<Option<String>, Failure> {
    if length == "never" {
        return Ok(None);
    }
    let lasts = match length.strip_suffix('d').map(str::parse::<u64>) {
        Some(Ok(days)) => Ok(Duration::from_secs(days.saturating_mul(86_400))),
        Some(Err(_)) | None => waiting::length(length),
    };
    let lasts = lasts.map_err(|error| {
        Failure::usage(format!(
            "--expires {length:?}: {error}; or write 90d, or never"
        ))
    })?;
    let end = clock::now().checked_add(lasts);
    let end = end.map_err(|error| Failure::usage(format!("--expires {length:?}: {error}")))?;
    Ok(Some(end.to_string()))
}

fn asked(args: &Create) -> Result<NewToken, Failure> {
    let role = args.role.map_or("", Role::word);
    let roles = args.namespace.iter().map(|namespace| RoleIn {
        namespace: namespace.clone(),
        role: role.to_owned(),
    });
    Ok(NewToken {
        name: args.name.clone(),
        roles: roles.collect(),
        pool: args.join.clone(),
        handlers: args.handler.clone(),
        workers: args.worker.clone(),
        expires_at: end(&args.expires)?,
    })
}

async fn create(args: &Create) -> Result<(), Failure> {
    let asked = asked(args)?;
    let client = Client::new(&args.connection)?;
    // Made before the token is, so that no secret is lost for want of a place.
    let file = args.out.as_deref().map(place).transpose()?;
    let made = client.post_for_secret::<MadeToken>(&["tokens"], &asked);
    let mut made = match made.await {
        Ok(made) => made,
        Err(failure) => {
            if let Some(path) = &args.out {
                // Empty, and ours.
                let _ = std::fs::remove_file(path);
            }
            return Err(failure);
        }
    };
    let mut place = "this is the only time that its secret is shown".to_owned();
    if let (Some(mut file), Some(path)) = (file, &args.out) {
        writeln!(file, "{}", made.secret)?;
        file.sync_all()?;
        made.secret = format!("(in {})", path.display());
        place = "its secret is in that file and nowhere else".to_owned();
    }
    args.output
        .show(&made, |made| format!("{}\n", made.secret))?;
    if args.output.is_table() {
        output::remark(&format!(
            "token {} ({}), {}; {place}",
            made.token.name,
            rights(&made.token),
            made.token
                .expires_at
                .as_deref()
                .map_or("without an end".to_owned(), |at| format!(
                    "until {}",
                    output::instant(at, 0)
                )),
        ));
    }
    Ok(())
}

/// A new file for its owner alone.
fn place(path: &Path) -> Result<std::fs::File, Failure> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    file.map_err(|error| {
        let text = format!("SC7015: {} can't be made: {error}", path.display());
        Failure::usage(text)
    })
}

/// What a token is for, in a few words.
fn rights(token: &Token) -> String {
    let Some(pool) = &token.pool else {
        return roles(&token.roles);
    };
    let mut text = format!("joins pool {pool}");
    if !token.workers.is_empty() {
        text = format!("{text} as {}", token.workers.join(", "));
    }
    if !token.handlers.is_empty() {
        text = format!("{text} for {}", token.handlers.join(", "));
    }
    text
}

pub(super) fn roles(roles: &[RoleIn]) -> String {
    let roles = roles.iter().map(|r| format!("{}={}", r.namespace, r.role));
    roles.collect::<Vec<_>>().join(" ")
}

/// Carries out `sichen token list`.
pub async fn list(args: &List) -> Result<(), Failure> {
    let client = Client::new(&args.connection)?;
    let found: Tokens = client.get(&["tokens"], Vec::new()).await?;
    args.output.show(&found, |found| {
        let now = clock::now();
        let at = |text: &Option<String>| match text {
            Some(text) => output::instant(text, 0),
            None => "-".to_owned(),
        };
        let rows = found.items.iter().map(|token| {
            [
                token.name.clone(),
                token.state.clone(),
                at(&token.expires_at),
                match &token.used_at {
                    Some(text) => output::age(text, now),
                    None => "-".to_owned(),
                },
                token.created_by.clone(),
                rights(token),
            ]
        });
        let head = ["TOKEN", "STATE", "EXPIRES", "USED", "MADE BY", "MAY"];
        output::table(head, rows)
    })?;
    let none = "no tokens but that of the file `token` in the server's data directory; `sichen token \
                create` makes some";
    args.output.remark_empty(&found.items, none);
    Ok(())
}

async fn revoke(args: &Revoke) -> Result<(), Failure> {
    let client = Client::new(&args.connection)?;
    let path = ["tokens", args.name.as_str()];
    let revoked: Token = match client.delete(&path).await {
        Err(failure) if failure.exit == Exit::NotFound => {
            let text = format!(
                "{}\n  `sichen token list` lists what there is",
                failure.text
            );
            return Err(Failure::new(failure.exit, text));
        }
        answer => answer?,
    };
    args.output.show(&revoked, |token| {
        format!("token {} is taken back\n", token.name)
    })
}

async fn whoami(args: &Whoami) -> Result<(), Failure> {
    let client = Client::new(&args.connection)?;
    let me: Me = client.get(&["me"], Vec::new()).await?;
    args.output.show(&me, |me| {
        let end = me.expires_at.as_deref();
        output::facts(&[
            ("Actor", me.actor.clone()),
            ("May", roles(&me.roles)),
            (
                "Expires",
                end.map_or(String::new(), |at| output::instant(at, 0)),
            ),
        ])
    })
}
