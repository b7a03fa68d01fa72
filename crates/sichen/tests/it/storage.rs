//! What a disk can do to a server, a worker and a database: lose its power, be full, fail a flush. What was
//! acknowledged is there afterwards, and what was not there is no lie about.
//!
//! Each method has a twin that must find a loss: the same program over a disk that does not flush.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::Signal;
use sichen_testdb::disk::Disk;
use sichen_testdb::in_ci;

use crate::database::Database;
use crate::program::{Process, until};
use crate::scene::{Kind, Scene, text};

/// Powers cut one after another.
const ROUNDS: usize = 2;
/// Callers at once.
const CALLERS: usize = 4;
/// Flushes of a database that fail one after another.
const FLUSHES: usize = 3;
/// Requests that are acknowledged before something befalls the disk.
const ENOUGH: usize = 60;

/// Who asks a server for runs, and remembers which it was promised.
struct Caller {
    address: String,
    token: String,
}

impl Caller {
    fn new(scene: &Scene) -> Self {
        let address = scene.server.url.strip_prefix("http://").unwrap().to_owned();
        let token = std::fs::read_to_string(scene.path("server/token")).unwrap();
        Self {
            address,
            token: token.trim().to_owned(),
        }
    }

    /// Asks for a run of `stored` under `key`: the status, 0 if there was no whole answer; and the body.
    fn ask(&self, key: &str) -> (u16, String) {
        self.try_ask(key).unwrap_or_default()
    }

    fn try_ask(&self, key: &str) -> Option<(u16, String)> {
        let body = format!("{{\"key\":\"{key}\"}}");
        let mut stream = std::net::TcpStream::connect(&self.address).ok()?;
        let patience = Some(std::time::Duration::from_secs(20));
        stream.set_read_timeout(patience).ok()?;
        let request = format!(
            "POST /api/v1/jobs/default/stored/runs HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\
             Authorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let status = answer.split(' ').nth(1)?.parse().ok()?;
        Some((status, answer))
    }

    fn promised(&self, key: &str) -> bool {
        matches!(self.ask(key).0, 200 | 201)
    }
}

/// Asks from several sides until `enough` are promised and `meanwhile` has ended; what was promised before
/// `meanwhile` began its last act is in its argument.
fn under_load<T>(
    caller: &Caller,
    prefix: &str,
    meanwhile: impl FnOnce(&Mutex<Vec<String>>) -> T,
) -> T {
    let promised = Mutex::new(Vec::new());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for side in 0..CALLERS {
            let (promised, over) = (&promised, &over);
            scope.spawn(move || {
                // Bounded, should nobody ever end it.
                for n in 0..20_000 {
                    if over.load(Ordering::SeqCst) {
                        return;
                    }
                    let key = format!("{prefix}-{side}-{n}");
                    if caller.promised(&key) {
                        promised.lock().unwrap().push(key);
                    }
                }
            });
        }
        let done = meanwhile(&promised);
        over.store(true, Ordering::SeqCst);
        done
    })
}

fn enough(promised: &Mutex<Vec<String>>) {
    let before = promised.lock().unwrap().len();
    until("requests are acknowledged", || {
        promised.lock().unwrap().len() >= before + ENOUGH
    });
}

fn apply_stored(scene: &Scene) {
    // Nobody runs them: what is promised is that they are there.
    scene.apply_spec(
        "stored",
        &serde_json::json!({ "run": { "handler": "noop" } }),
    );
}

/// Keys of the runs that the database in `data` has.
fn stored(data: &Path) -> BTreeSet<String> {
    let Ok(database) = rusqlite::Connection::open(data.join("sichen.db")) else {
        // Not even its directory is there.
        return BTreeSet::new();
    };
    let mut keys = match database.prepare("select occasion from run") {
        Ok(keys) => keys,
        // Not even its tables are there.
        Err(_) => return BTreeSet::new(),
    };
    let key = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
    let keys = keys.query_map([], key).unwrap().map(Result::unwrap);
    keys.filter_map(|key| key.strip_prefix("m/").map(str::to_owned))
        .collect()
}

/// How many of the promised runs of a server on SQLite are gone after its machine lost its power; the disk that
/// is left, and where its data is there.
fn lost_with_the_power(disk: &Disk, scene: &Scene, round: usize) -> (usize, Disk, PathBuf) {
    let caller = Caller::new(scene);
    let (promised, left) = under_load(&caller, &format!("r{round}"), |promised| {
        enough(promised);
        let pids = scene.server.tree();
        pids.iter()
            .for_each(|pid| nix::sys::signal::kill(*pid, Signal::SIGSTOP).unwrap());
        // Who was answered by now was answered before the power went.
        let promised = promised.lock().unwrap().clone();
        let left = disk.after_power_loss();
        pids.iter()
            .for_each(|pid| nix::sys::signal::kill(*pid, Signal::SIGCONT).unwrap());
        (promised, left)
    });
    let data = left.place_of(disk, &scene.path("server"));
    let there = stored(&data);
    let gone = promised.iter().filter(|key| !there.contains(*key)).count();
    assert!(promised.len() >= ENOUGH);
    (gone, left, data)
}

#[test]
fn a_server_on_sqlite_loses_nothing_that_it_acknowledged_with_the_power() {
    let Some(disk) = Disk::new(128) else { return };
    let scene = Scene::in_dir(disk.path(), None);
    apply_stored(&scene);
    for round in 0..ROUNDS {
        let (gone, left, data) = lost_with_the_power(&disk, &scene, round);
        assert_eq!(gone, 0, "acknowledged runs are gone");
        let verify = crate::program::command(&["verify", "--data", text(&data)]);
        accepted(verify);
        drop(left);
    }
}

/// The method can find a loss: the same server, whose flushes do nothing.
#[test]
fn a_server_whose_disk_does_not_flush_is_found_out() {
    let (Some(disk), true) = (Disk::new(128), has_strace()) else {
        return;
    };
    let scene = Scene::in_dir(disk.path(), Some(&lying()));
    apply_stored(&scene);
    let (gone, ..) = lost_with_the_power(&disk, &scene, 0);
    assert!(gone > 0, "nothing was flushed, and nothing is missed");
}

fn accepted(mut command: Command) {
    let output = command.output().unwrap();
    let said = crate::program::out(&output) + &crate::program::err(&output);
    assert!(output.status.success(), "{said}");
}

/// A program before the server, by which no flush does anything.
fn lying() -> Vec<String> {
    strace("inject=fsync,fdatasync:retval=0")
}

fn strace(inject: &str) -> Vec<String> {
    // The tracer is not the parent, so that signals and exit codes are the program's own.
    let words = [
        "strace",
        "-D",
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        "trace=fsync,fdatasync",
        "-e",
        inject,
    ];
    words.map(str::to_owned).to_vec()
}

fn has_strace() -> bool {
    let there = Command::new("strace").arg("-V").output().is_ok();
    if !there {
        let say = "SKIPPED: it needs strace";
        assert!(!in_ci(), "{say}, although CI is set");
        let _ = writeln!(std::io::stderr(), "{say}");
    }
    there
}

/// A server on a disk that fills up says so, loses nothing, answers questions, and goes on when there is room.
#[test]
fn a_server_whose_disk_is_full_goes_on_when_there_is_room() {
    let Some(disk) = Disk::new(64) else { return };
    let scene = Scene::in_dir(disk.path(), None);
    apply_stored(&scene);
    let caller = Caller::new(&scene);
    let promised = under_load(&caller, "full", |promised| {
        enough(promised);
        disk.fill();
        // What the log has room for yet is taken; then it is refused.
        until("a request is refused", || {
            let (status, said) = caller.ask("refused");
            status == 503 && said.contains("SC3005")
        });
        promised.lock().unwrap().clone()
    });
    scene.client.ok("get jobs");
    disk.make_room();
    until("it takes requests again", || caller.promised("after"));
    until("it is ready", || scene.ready().0 == 200);
    let there = stored(&scene.path("server"));
    let gone: Vec<&String> = promised
        .iter()
        .filter(|key| !there.contains(*key))
        .collect();
    assert!(gone.is_empty(), "{gone:?}");
    scene.history_is_accepted();
}

/// A flush that fails is never taken for done: its commit is not acknowledged, and the file is not written again.
#[test]
fn a_server_whose_disk_fails_a_flush_acknowledges_no_more() {
    let (Some(disk), true) = (Disk::new(64), has_strace()) else {
        return;
    };
    // The first ones make the store; and thousands are far more than that takes.
    let words = strace("inject=fsync,fdatasync:error=EIO:when=150+");
    let scene = Scene::in_dir(disk.path(), Some(&words));
    apply_stored(&scene);
    let caller = Caller::new(&scene);
    let mut promised = Vec::new();
    let refused = (0..2_000).find_map(|n| {
        let key = format!("eio-{n}");
        let (status, said) = caller.ask(&key);
        if status == 200 || status == 201 {
            promised.push(key);
            return None;
        }
        Some((status, said))
    });
    let (status, said) = refused.expect("a flush fails");
    assert_eq!(status, 503, "{said}");
    until("it says why", || caller.ask("later").1.contains("SC3009"));
    until("it says that it can't do its work", || {
        scene.ready().0 == 503
    });
    let there = stored(&scene.path("server"));
    assert!(promised.iter().all(|key| there.contains(key)));
    assert!(!promised.is_empty());
}

/// PostgreSQL's machine loses its power; the server, which is on another, goes on by itself.
#[test]
fn a_database_loses_nothing_that_was_acknowledged_with_the_power() {
    let Some(disk) = Disk::new(192) else { return };
    let Some(database) = Database::start_in(disk.path(), true) else {
        return;
    };
    let mut scene = Scene::on_database(database);
    apply_stored(&scene);
    let mut disks = vec![disk];
    for round in 0..ROUNDS {
        let caller = Caller::new(&scene);
        let promised = cut_the_database(&mut scene, &mut disks, &caller, round);
        until("the server is ready", || scene.ready().0 == 200);
        let gone = missing(&scene, &promised);
        assert!(gone.is_empty(), "{gone:?}");
    }
    scene.client.ok("verify");
    drop(scene);
}

/// Cuts the power of the database's disk under load and starts it from what is left; what was promised before.
fn cut_the_database(
    scene: &mut Scene,
    disks: &mut Vec<Disk>,
    caller: &Caller,
    round: usize,
) -> Vec<String> {
    let database = scene.database();
    under_load(caller, &format!("r{round}"), |promised| {
        enough(promised);
        let mut before = Vec::new();
        database.lose_power(|dir| {
            before = promised.lock().unwrap().clone();
            let disk = disks.last().unwrap();
            let left = disk.after_power_loss();
            let place = left.place_of(disk, dir);
            disks.push(left);
            place
        });
        before
    })
}

fn missing(scene: &Scene, promised: &[String]) -> Vec<String> {
    let session = scene.database.as_ref().unwrap().connect();
    let there = |key: &&String| {
        let query = format!("select count(*) from run where occasion = 'm/{key}'");
        session.number(&query) == 0
    };
    promised.iter().filter(there).cloned().collect()
}

/// The method finds a loss here too: the same database with its flushes off, written to directly, since a
/// server refuses such a one.
#[test]
fn a_database_that_does_not_flush_is_found_out() {
    let Some(disk) = Disk::new(192) else { return };
    let Some(mut database) = Database::start_in(disk.path(), false) else {
        return;
    };
    // What is there from before is on the disk; what is committed now is not.
    let session = database.connect();
    session.execute("create table said (n int)");
    session.execute("checkpoint");
    nix::unistd::sync();
    let mut said = 0;
    for n in 0..200 {
        session.execute(&format!("insert into said values ({n})"));
        said += 1;
    }
    drop(session);
    let mut disks = vec![disk];
    database.lose_power(|dir| {
        let left = disks[0].after_power_loss();
        let place = left.place_of(&disks[0], dir);
        disks.push(left);
        place
    });
    let found = database.connect().number("select count(*) from said");
    assert!(found < said, "{found} of {said}");
    drop(database);
}

/// A full disk ends PostgreSQL; once somebody makes room and starts it, the server goes on, and nothing is lost.
#[test]
fn a_database_whose_disk_is_full_loses_nothing_and_the_server_goes_on() {
    let Some(disk) = Disk::new(192) else { return };
    let Some(database) = Database::start_in(disk.path(), true) else {
        return;
    };
    let mut scene = Scene::on_database(database);
    apply_stored(&scene);
    let caller = Caller::new(&scene);
    let promised = under_load(&caller, "full", |promised| {
        enough(promised);
        disk.fill();
        until("a request is refused", || caller.ask("refused").0 == 503);
        promised.lock().unwrap().clone()
    });
    disk.make_room();
    scene.database().start_if_dead();
    until("it takes requests again", || caller.promised("after"));
    until("it is ready", || scene.ready().0 == 200);
    let gone = missing(&scene, &promised);
    assert!(gone.is_empty(), "{gone:?}");
    scene.client.ok("verify");
    drop(scene);
}

/// A flush of PostgreSQL's that fails ends it at once, since what its disk holds is not known. It recovers from its
/// log by itself, or once somebody starts it; the server goes on, and nothing that was acknowledged is lost. So again
/// and again.
#[test]
fn a_database_whose_disk_fails_flushes_loses_nothing_and_the_server_goes_on() {
    let (Some(disk), true) = (Disk::new(192), has_strace()) else {
        return;
    };
    let Some(database) = Database::start_in(disk.path(), true) else {
        return;
    };
    let mut scene = Scene::on_database(database);
    apply_stored(&scene);
    let caller = Caller::new(&scene);
    for round in 0..FLUSHES {
        let crashes = |scene: &mut Scene| {
            let log = scene.database().log();
            log.matches("PANIC:  could not f").count()
        };
        let before = crashes(&mut scene);
        let promised = under_load(&caller, &format!("eio{round}"), |promised| {
            enough(promised);
            let mut harm = failing_flushes(&scene.database().processes());
            until("a flush fails", || crashes(&mut scene) > before);
            // It lets go of those that live, and ends.
            let pid = nix::unistd::Pid::from_raw(harm.id().cast_signed());
            nix::sys::signal::kill(pid, Signal::SIGTERM).unwrap();
            harm.wait().unwrap();
            promised.lock().unwrap().clone()
        });
        until("the server is ready", || {
            // If a flush of its recovery failed too it has ended for good.
            scene.database().start_if_dead();
            scene.ready().0 == 200
        });
        until("it takes requests again", || {
            caller.promised(&format!("after-{round}"))
        });
        let gone = missing(&scene, &promised);
        assert!(gone.is_empty(), "{gone:?}");
    }
    scene.client.ok("verify");
    drop(scene);
}

/// The fifth flush from now on of each of these processes, and of those that they start, fails.
fn failing_flushes(pids: &[u32]) -> std::process::Child {
    let mut words = strace("inject=fsync,fdatasync:error=EIO:when=5+").split_off(1);
    // It is no parent here, and its own process is to be known.
    words.retain(|word| word != "-D");
    let mut command = Command::new("strace");
    command.args(words);
    for pid in pids {
        command.args(["-p", &pid.to_string()]);
    }
    command.spawn().unwrap()
}

/// Results by run and shard.
type Results = BTreeSet<(i64, i64)>;

/// Results that a worker has in its journal.
fn journaled(dir: &Path) -> Results {
    let Ok(journal) = rusqlite::Connection::open(dir.join("journal.db")) else {
        return BTreeSet::new();
    };
    let Ok(mut rows) = journal.prepare("select run_id, no from attempt where finish is not null")
    else {
        return BTreeSet::new();
    };
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let rows = rows.query_map([], row).unwrap();
    rows.filter_map(Result::ok).collect()
}

/// Results of a worker whose server does not answer, and what its disk has of them when the power goes: what was
/// there before, what is left, and the disk.
fn results_after_a_power_loss(
    scene: &Scene,
    disk: &Disk,
    before_it: Option<&[String]>,
) -> (Results, Results, Disk, PathBuf) {
    let home = disk.path().join("w1");
    let worker = scene.worker_at(&home, 20, before_it);
    scene.apply_script("harmed", 20);
    scene.client.ok("run harmed --key k");
    until("all are running", || {
        scene
            .shards("harmed:manual:k")
            .iter()
            .all(|shard| shard["state"] == "running")
    });
    // They end now, and nobody takes their results.
    scene.server.signal(Signal::SIGSTOP);
    scene.go();
    until("the results are in the journal", || {
        journaled(&home).len() == 20
    });
    let pids = worker.tree();
    pids.iter()
        .for_each(|pid| nix::sys::signal::kill(*pid, Signal::SIGSTOP).unwrap());
    let before = journaled(&home);
    let left = disk.after_power_loss();
    pids.iter().for_each(|pid| {
        // Its tasks have ended, and their keepers may have by now.
        let _ = nix::sys::signal::kill(*pid, Signal::SIGKILL);
    });
    drop(worker);
    let place = left.place_of(disk, &home);
    let after = journaled(&place);
    (before, after, left, place)
}

#[test]
fn a_worker_loses_no_result_with_the_power() {
    let Some(disk) = Disk::new(64) else { return };
    let scene = Scene::new(Kind::Sqlite).unwrap();
    let (before, after, left, place) = results_after_a_power_loss(&scene, &disk, None);
    assert_eq!(before, after);
    scene.server.signal(Signal::SIGCONT);
    // It comes back with what its disk has, and hands that in: nothing is done again.
    let worker = scene.worker_at(&place, 20, None);
    scene.settles("harmed:manual:k", "succeeded");
    let mut done = scene.done();
    done.sort();
    done.dedup();
    assert_eq!((done.len(), scene.done().len()), (20, 20));
    scene.history_is_accepted();
    drop((worker, left));
}

#[test]
fn a_worker_whose_disk_does_not_flush_is_found_out() {
    let (Some(disk), true) = (Disk::new(64), has_strace()) else {
        return;
    };
    let scene = Scene::new(Kind::Sqlite).unwrap();
    let (before, after, ..) = results_after_a_power_loss(&scene, &disk, Some(&lying()));
    scene.server.signal(Signal::SIGCONT);
    assert!(
        after.len() < before.len(),
        "{} of {}",
        after.len(),
        before.len()
    );
}

/// A worker that can't write its journal takes no more work, reports what it has, and goes on when there is room.
#[test]
fn a_worker_whose_disk_is_full_goes_on_when_there_is_room() {
    let Some(disk) = Disk::new(32) else { return };
    let scene = Scene::new(Kind::Sqlite).unwrap();
    let home = disk.path().join("w1");
    let worker = scene.worker_at(&home, 4, None);
    scene.apply_script("harmed", 4);
    scene.client.ok("run harmed --key k");
    until("all are running", || {
        scene
            .shards("harmed:manual:k")
            .iter()
            .all(|shard| shard["state"] == "running")
    });
    disk.fill();
    scene.go();
    // Kept in memory, and reported: the server has them.
    scene.settles("harmed:manual:k", "succeeded");
    scene.client.ok("run harmed --key later");
    disk.make_room();
    scene.settles("harmed:manual:later", "succeeded");
    assert_eq!(scene.done().len(), 8, "each shard was done once");
    scene.history_is_accepted();
    drop(worker);
}

/// A worker whose journal can't be flushed ends: what its disk holds is not known. Nothing is done twice that was
/// accepted, and another takes the work over.
#[test]
fn a_worker_whose_disk_fails_a_flush_ends() {
    let (Some(disk), true) = (Disk::new(32), has_strace()) else {
        return;
    };
    let scene = Scene::impatient(Kind::Sqlite).unwrap();
    let words = strace("inject=fsync,fdatasync:error=EIO:when=40+");
    let mut worker = scene.worker_at(&disk.path().join("w1"), 4, Some(&words));
    scene.apply_steps("harmed", "true", 60);
    scene.client.ok("run harmed --key k");
    let ended: std::process::ExitStatus = worker.ended();
    assert!(!ended.success(), "{ended}");
    let other = scene.worker("w2", &scene.server.url, 4);
    scene.settles("harmed:manual:k", "succeeded");
    scene.history_is_accepted();
    drop::<(Process, Process)>((worker, other));
}
