//! `sichen user`: people who may log in.
//!
//! # Invariants
//! - A password is on no command line: it is typed, unseen, or read from the standard input.
//!
//! # Not here
//! Judging them (`sichen-server`).

use std::io::{self, BufRead as _, IsTerminal as _, Read as _};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use nix::sys::termios::{self, LocalFlags, SetArg};
use sichen_core::name::Name;
use sichen_core::user::{MAX_PASSWORD_BYTES, check_password};
use sichen_server::rest::wire::{NewPassword, NewRoles, NewUser, RoleIn, User, Users};

use super::token::{Role, roles};
use crate::client::{Client, Connection};
use crate::clock;
use crate::failure::Failure;
use crate::output::{self, Output};

/// Make, list and change users: people who log in to the console with a password.
#[derive(Debug, Subcommand)]
pub enum Command {
    Add(Add),
    List(List),
    Roles(Roles),
    Password(Password),
    Disable(Disable),
    Enable(Enable),
}

/// Make a user. His password is asked for, or read from the standard input.
#[derive(Debug, Args)]
pub struct Add {
    /// His name; events say `user NAME`.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    rights: Rights,
    /// Give him no password for now: he can't log in with one.
    #[arg(long)]
    no_password: bool,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// What a user may do.
#[derive(Debug, Args)]
struct Rights {
    /// What he may do: viewer sees, operator also starts, stops and retries, editor also changes jobs and
    /// calendars, admin also gives rights.
    #[arg(long, value_name = "ROLE")]
    role: Role,
    /// Where: a namespace, again for more of them; `*` is all, and the cluster as a whole.
    #[arg(long, value_name = "NAMESPACE", required = true)]
    namespace: Vec<String>,
    /// Another role elsewhere, such as `payments=admin`, again for more.
    #[arg(long = "also", value_name = "NAMESPACE=ROLE")]
    also: Vec<String>,
}

impl Rights {
    fn roles(&self) -> Result<Vec<RoleIn>, Failure> {
        let all = self.namespace.iter().map(|namespace| RoleIn {
            namespace: namespace.clone(),
            role: self.role.word().to_owned(),
        });
        let mut all: Vec<RoleIn> = all.collect();
        for also in &self.also {
            let Some((namespace, role)) = also.split_once('=') else {
                let text = format!("--also {also:?}: write NAMESPACE=ROLE, such as payments=admin");
                return Err(Failure::usage(text));
            };
            all.push(RoleIn {
                namespace: namespace.to_owned(),
                role: role.to_owned(),
            });
        }
        Ok(all)
    }
}

/// List users, the disabled ones too.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// Say what a user may do from now on: all of it, what is not said is taken away.
#[derive(Debug, Args)]
pub struct Roles {
    /// His name.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    rights: Rights,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// Give a user another password. All his logins end.
#[derive(Debug, Args)]
pub struct Password {
    /// His name.
    #[arg(value_name = "NAME")]
    name: String,
    /// Take his password away: he can't log in with one.
    #[arg(long)]
    none: bool,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// Let a user do nothing: all his logins end, everywhere within 2 seconds.
#[derive(Debug, Args)]
pub struct Disable {
    /// His name.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// Let a disabled user log in again.
#[derive(Debug, Args)]
pub struct Enable {
    /// His name.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// Carries out `sichen user`.
pub async fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Add(args) => add(&args).await?,
        Command::List(args) => list(&args).await?,
        Command::Roles(args) => {
            let asked = NewRoles {
                roles: args.rights.roles()?,
            };
            let client = Client::new(&args.connection)?;
            let path = ["users", &args.name, "roles"];
            told(
                &args.output,
                &client.post(&path, Some(&asked), false).await?,
            )?;
        }
        Command::Password(args) => {
            let client = Client::new(&args.connection)?;
            let password = match args.none {
                true => None,
                false => Some(password_of(&args.name)?),
            };
            let user = set_password(&client, &args.name, password).await?;
            told(&args.output, &user)?;
        }
        Command::Disable(args) => {
            let client = Client::new(&args.connection)?;
            let path = ["users", &args.name, "disable"];
            told(&args.output, &client.post(&path, None::<&()>, false).await?)?;
        }
        Command::Enable(args) => {
            let client = Client::new(&args.connection)?;
            let path = ["users", &args.name, "enable"];
            told(&args.output, &client.post(&path, None::<&()>, false).await?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn add(args: &Add) -> Result<(), Failure> {
    let asked = NewUser {
        name: args.name.clone(),
        roles: args.rights.roles()?,
    };
    let client = Client::new(&args.connection)?;
    // Before he is made, so that nobody is left half made for want of one.
    let password = match args.no_password {
        true => None,
        false => Some(password_of(&args.name)?),
    };
    let mut user: User = client.post(&["users"], Some(&asked), false).await?;
    if password.is_some() {
        user = set_password(&client, &args.name, password).await?;
    }
    told(&args.output, &user)
}

async fn set_password(
    client: &Client,
    name: &str,
    password: Option<String>,
) -> Result<User, Failure> {
    let asked = NewPassword { password };
    client
        .post(&["users", name, "password"], Some(&asked), true)
        .await
}

fn told(output: &Output, user: &User) -> Result<(), Failure> {
    output.show(user, |user| {
        let how = match (user.state.as_str(), user.has_password) {
            ("active", true) => "",
            ("active", false) => ", without a password",
            _ => ", disabled",
        };
        format!("user {} ({}){how}\n", user.name, roles(&user.roles))
    })
}

/// Carries out `sichen user list`.
async fn list(args: &List) -> Result<(), Failure> {
    let client = Client::new(&args.connection)?;
    let found: Users = client.get(&["users"], Vec::new()).await?;
    args.output.show(&found, |found| {
        let now = clock::now();
        let rows = found.items.iter().map(|user| {
            [
                user.name.clone(),
                user.state.clone(),
                match user.has_password {
                    true => "yes".to_owned(),
                    false => "no".to_owned(),
                },
                user.logins.to_string(),
                match &user.logged_in_at {
                    Some(text) => output::age(text, now),
                    None => "-".to_owned(),
                },
                user.created_by.clone(),
                roles(&user.roles),
            ]
        });
        let head = [
            "USER", "STATE", "PASSWORD", "LOGINS", "LAST", "MADE BY", "MAY",
        ];
        output::table(head, rows)
    })?;
    let none = "no users; `sichen user add` makes some";
    args.output.remark_empty(&found.items, none);
    Ok(())
}

/// A new password that is good for one.
fn password_of(name: &str) -> Result<String, Failure> {
    let password = given(name)?;
    let known = Name::new(name).ok();
    match known.map(|name| check_password(&name, &password)) {
        Some(Err(error)) => {
            let text = format!("SC6037: the password is not taken: {error}; nothing was done");
            Err(Failure::usage(text))
        }
        // What is wrong with a name is the server's to say.
        Some(Ok(())) | None => Ok(password),
    }
}

/// A password: typed twice on a terminal, else the first line of the standard input.
fn given(name: &str) -> Result<String, Failure> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        let mut line = String::new();
        let most = MAX_PASSWORD_BYTES as u64 + 2;
        stdin.lock().take(most).read_line(&mut line)?;
        return Ok(line.trim_end_matches(['\r', '\n']).to_owned());
    }
    let first = unseen(&format!("New password of {name}: "))?;
    let second = unseen("The same again: ")?;
    match first == second {
        true => Ok(first),
        false => Err(Failure::usage(
            "SC7061: the two are not the same; nothing was done",
        )),
    }
}

/// Asks for a line that is not shown while it is typed.
fn unseen(question: &str) -> Result<String, Failure> {
    let stdin = io::stdin();
    let shown = termios::tcgetattr(&stdin).map_err(io::Error::from)?;
    let mut hidden = shown.clone();
    hidden.local_flags.remove(LocalFlags::ECHO);
    hidden.local_flags.insert(LocalFlags::ECHONL);
    output::beside(question);
    termios::tcsetattr(&stdin, SetArg::TCSAFLUSH, &hidden).map_err(io::Error::from)?;
    let mut line = String::new();
    let read = stdin.lock().read_line(&mut line);
    let back = termios::tcsetattr(&stdin, SetArg::TCSAFLUSH, &shown);
    read?;
    back.map_err(io::Error::from)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}
