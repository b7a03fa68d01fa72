//! Which programs tests need beyond Rust, and where they are.

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The variable that names what is not tested, separated by commas. `cargo xtask test --without`
/// sets it.
pub const WITHOUT: &str = "SICHEN_TEST_WITHOUT";
/// The variable that names the directory of the server's programs, where it is not found by itself.
const POSTGRES_BIN: &str = "SICHEN_TEST_PG_BIN";
/// The oldest server that the store takes.
const OLDEST_POSTGRES: u32 = 14;

/// A database that tests start, or another program that they need.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Service {
    Postgres,
    Mariadb,
    Pgbouncer,
    /// Shows one process another time of day.
    Faketime,
    Prometheus,
    /// A mail server's library, in Python.
    Mail,
}

impl Service {
    /// All of them.
    pub const ALL: [Service; 6] = [
        Service::Postgres,
        Service::Mariadb,
        Service::Pgbouncer,
        Service::Faketime,
        Service::Prometheus,
        Service::Mail,
    ];

    /// Its name in [`WITHOUT`].
    pub fn name(self) -> &'static str {
        match self {
            Service::Postgres => "postgres",
            Service::Mariadb => "mariadb",
            Service::Pgbouncer => "pgbouncer",
            Service::Faketime => "faketime",
            Service::Prometheus => "prometheus",
            Service::Mail => "mail",
        }
    }

    /// Whether its programs are here.
    pub fn is_installed(self) -> bool {
        match self {
            Service::Postgres => find_postgres().is_some(),
            Service::Mariadb => find_mariadb().is_some(),
            Service::Pgbouncer => find_pgbouncer().is_some(),
            Service::Faketime => find_faketime().is_some(),
            Service::Prometheus => find_prometheus().is_some(),
            Service::Mail => find_mail_server().is_some(),
        }
    }

    /// Its packages on Debian and Ubuntu; where the first are not known, the next.
    pub fn debian_packages(self) -> &'static [&'static [&'static str]] {
        match self {
            Service::Postgres => &[&["postgresql"]],
            Service::Mariadb => &[
                &["mariadb-server-core", "mariadb-client-core"],
                &["mariadb-server"],
            ],
            Service::Pgbouncer => &[&["pgbouncer"]],
            Service::Faketime => &[&["libfaketime"]],
            Service::Prometheus => &[&["prometheus"]],
            Service::Mail => &[&["python3-aiosmtpd"]],
        }
    }

    /// What to do where its programs are missing.
    pub fn missing(self) -> String {
        let what = match self {
            Service::Postgres => format!(
                "no PostgreSQL server of version {OLDEST_POSTGRES} or newer is installed here. \
                 Install one (Debian, Ubuntu: apt-get install postgresql; Fedora: dnf install \
                 postgresql-server; Arch: pacman -S postgresql; macOS: brew install postgresql@17), \
                 or name the directory of its programs in {POSTGRES_BIN}"
            ),
            Service::Mariadb => {
                "no MariaDB server is installed here. Install one (Debian, Ubuntu: \
                 apt-get install mariadb-server-core mariadb-client-core; Fedora: dnf install \
                 mariadb-server; Arch: pacman -S mariadb; macOS: brew install mariadb)"
                    .to_owned()
            }
            Service::Pgbouncer => {
                "no pgbouncer is installed here. Install it (Debian, Ubuntu, Fedora: the package \
                 pgbouncer; Arch: pacman -S pgbouncer; macOS: brew install pgbouncer)"
                    .to_owned()
            }
            Service::Faketime => {
                "no libfaketime is installed here. Install it (Debian, Ubuntu: apt-get install \
                 libfaketime; Fedora: dnf install libfaketime; Arch: pacman -S libfaketime; on macOS \
                 it shows our processes nothing)"
                    .to_owned()
            }
            Service::Prometheus => {
                "no Prometheus with promtool is installed here. Install it (Debian, Ubuntu, Arch: the \
                 package prometheus; Fedora: golang-github-prometheus; macOS: brew install prometheus)"
                    .to_owned()
            }
            Service::Mail => "no Python with aiosmtpd is installed here. Install it (Debian, Ubuntu, Fedora: \
                 the package python3-aiosmtpd; macOS: pip3 install aiosmtpd)"
                .to_owned(),
        };
        let name = self.name();
        format!("{what}; or leave it untested: cargo xtask test --without {name}")
    }

    /// Whether it is left out by name; then that is said, and `CI` must not be set.
    fn is_left_out(self) -> bool {
        let without = std::env::var(WITHOUT).unwrap_or_default();
        let left_out = without.split(',').any(|name| name == self.name());
        if left_out {
            let say = format!("NOT TESTED: {WITHOUT} names {}", self.name());
            assert!(!in_ci(), "{say}, although CI is set");
            // Past the test runner's capture, which would hide it of a test that passes.
            let _ = writeln!(std::io::stderr(), "{say}");
        }
        left_out
    }
}

/// Whether `CI` is set, where nothing may be left out.
pub fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !["", "0", "false"].contains(&value.as_str()))
}

/// The directory of the server's programs; `None` if it is left out by name.
pub fn postgres_programs() -> Option<PathBuf> {
    if Service::Postgres.is_left_out() {
        return None;
    }
    Some(find_postgres().unwrap_or_else(|| panic!("{}", Service::Postgres.missing())))
}

fn find_postgres() -> Option<PathBuf> {
    if let Some(dir) = std::env::var_os(POSTGRES_BIN) {
        return Some(PathBuf::from(dir));
    }
    // Debian's own place, and that of Fedora's and PostgreSQL's packages: a directory a version.
    let found = newest_postgres(&["/usr/lib/postgresql", "/usr"].map(Path::new));
    found.or_else(|| std::env::split_paths(&std::env::var_os("PATH")?).find(|dir| is_whole(dir)))
}

fn is_whole(bin: &Path) -> bool {
    bin.join("postgres").exists() && bin.join("initdb").exists()
}

/// The newest server below these directories that the store takes.
fn newest_postgres(places: &[&Path]) -> Option<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = places
        .iter()
        .flat_map(|dir| std::fs::read_dir(dir).into_iter().flatten().flatten())
        .filter_map(|entry| {
            let name = entry.file_name();
            let name = name.to_str()?;
            let version = name.strip_prefix("pgsql-").unwrap_or(name).parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .filter(|(version, bin)| *version >= OLDEST_POSTGRES && is_whole(bin))
        .collect();
    found.sort();
    found.pop().map(|(_, bin)| bin)
}

/// MariaDB's programs.
#[derive(Clone, Debug)]
pub struct MariadbPrograms {
    /// Makes a data directory.
    pub install: PathBuf,
    /// The server.
    pub daemon: PathBuf,
}

/// MariaDB's programs; `None` if it is left out by name.
pub fn mariadb() -> Option<MariadbPrograms> {
    if Service::Mariadb.is_left_out() {
        return None;
    }
    Some(find_mariadb().unwrap_or_else(|| panic!("{}", Service::Mariadb.missing())))
}

/// The pooler's program; `None` if it is left out by name.
pub fn pgbouncer() -> Option<PathBuf> {
    if Service::Pgbouncer.is_left_out() {
        return None;
    }
    Some(find_pgbouncer().unwrap_or_else(|| panic!("{}", Service::Pgbouncer.missing())))
}

/// The library that shows a process another time of day; `None` if it is left out by name.
pub fn faketime() -> Option<PathBuf> {
    if Service::Faketime.is_left_out() {
        return None;
    }
    Some(find_faketime().unwrap_or_else(|| panic!("{}", Service::Faketime.missing())))
}

/// Debian has a directory for each kind of machine, others one of the system's.
fn find_faketime() -> Option<PathBuf> {
    let machines = std::fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .flatten();
    let places = machines.map(|entry| entry.path());
    let mut places = places.chain(["/usr/lib", "/usr/lib64"].map(PathBuf::from));
    places.find_map(|dir| Some(dir.join("faketime/libfaketime.so.1")).filter(|lib| lib.is_file()))
}

fn find_pgbouncer() -> Option<PathBuf> {
    find_program("pgbouncer")
}

/// The programs of Prometheus.
#[derive(Clone, Debug)]
pub struct PrometheusPrograms {
    /// The monitor.
    pub server: PathBuf,
    /// What checks metrics and rules.
    pub promtool: PathBuf,
}

/// The programs of Prometheus; `None` if it is left out by name.
pub fn prometheus() -> Option<PrometheusPrograms> {
    if Service::Prometheus.is_left_out() {
        return None;
    }
    Some(find_prometheus().unwrap_or_else(|| panic!("{}", Service::Prometheus.missing())))
}

fn find_prometheus() -> Option<PrometheusPrograms> {
    Some(PrometheusPrograms {
        server: find_program("prometheus")?,
        promtool: find_program("promtool")?,
    })
}

/// A Python that has a mail server's library; `None` if it is left out by name.
pub fn mail_server() -> Option<PathBuf> {
    if Service::Mail.is_left_out() {
        return None;
    }
    Some(find_mail_server().unwrap_or_else(|| panic!("{}", Service::Mail.missing())))
}

/// The system's own comes first: packages of the system are seen by it alone.
fn find_mail_server() -> Option<PathBuf> {
    let has_it = |python: &PathBuf| {
        let mut asked = std::process::Command::new(python);
        let asked = asked.args(["-c", "import aiosmtpd.smtp"]).output();
        asked.is_ok_and(|out| out.status.success())
    };
    let own = PathBuf::from("/usr/bin/python3");
    [Some(own), find_program("python3")]
        .into_iter()
        .flatten()
        .find(has_it)
}

/// Servers stand in places that a user's PATH may lack.
fn find_program(name: &str) -> Option<PathBuf> {
    let dirs = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = dirs.iter().map(PathBuf::from);
    let mut paths = dirs.chain(std::env::split_paths(&path));
    paths.find_map(|dir| Some(dir.join(name)).filter(|path| Path::is_file(path)))
}

fn find_mariadb() -> Option<MariadbPrograms> {
    // The script that makes the tables asks a third program, of another package.
    find_program("my_print_defaults")?;
    Some(MariadbPrograms {
        install: find_program("mariadb-install-db")?,
        daemon: find_program("mariadbd")?,
    })
}

#[cfg(test)]
mod tests;
