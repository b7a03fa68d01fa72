//! Claims about the compose file and the Helm chart of `deploy/`, which no engine of containers is needed
//! for: what they start is started here, with a root that can't be written and as somebody else.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::database::Database;
use crate::program::{Client, Process, command, command_by, spawned, started, until};
use crate::scene::text;

fn file(name: &str) -> PathBuf {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    deploy.canonicalize().unwrap().join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(file(name)).unwrap()
}

fn words(value: &Value) -> Vec<String> {
    let list = value
        .as_array()
        .unwrap_or_else(|| panic!("no list: {value}"));
    list.iter()
        .map(|w| w.as_str().unwrap().to_owned())
        .collect()
}

/// A program that sees all of this machine and of `dir`, can write nowhere but into `own`, and is nobody in
/// particular; none where that can't be had.
fn shut_in(dir: &Path, own: &Path) -> Vec<String> {
    let words = |more: &[&str]| {
        let (dir, own) = (text(dir), text(own));
        let mut words = vec![
            "bwrap",
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--proc",
            "/proc",
        ];
        words.extend(["--tmpfs", "/tmp", "--ro-bind", dir, dir, "--bind", own, own]);
        words.extend([
            "--unshare-user",
            "--uid",
            "65532",
            "--gid",
            "65532",
            "--cap-drop",
            "ALL",
            "--die-with-parent",
        ]);
        words.extend(more);
        words.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let probe = words(&["/bin/true"]);
    let works = Command::new(&probe[0]).args(&probe[1..]).status();
    if works.is_ok_and(|status| status.success()) {
        return words(&[]);
    }
    println!("NOT RUN: without bubblewrap the root can be written");
    Vec::new()
}

/// The compose file, carried out beside a database of the test's own.
struct Stack {
    dir: tempfile::TempDir,
    compose: Value,
    database: Database,
    ports: [u16; 2],
}

impl Stack {
    fn new() -> Option<Self> {
        let database = Database::start()?;
        let free = || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port()
        };
        Some(Self {
            dir: tempfile::tempdir().unwrap(),
            compose: serde_saphyr::from_str(&read("compose/compose.yaml")).unwrap(),
            database,
            ports: [free(), free()],
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn service(&self, name: &str) -> &Value {
        &self.compose["services"][name]
    }

    /// As it reads where this test runs.
    fn here(&self, words: &str) -> String {
        let dir = text(self.dir.path());
        let mut here = words
            .replace("/keys/", &format!("{dir}/keys/"))
            .replace("/etc/sichen/", &format!("{dir}/etc/"))
            .replace("postgres://sichen@database/sichen", &self.database.url());
        for (n, port) in self.ports.iter().enumerate() {
            here = here.replace(
                &format!("server-{}:7070", n + 1),
                &format!("127.0.0.1:{port}"),
            );
        }
        here
    }

    /// What `keys` does, as whoever runs this.
    fn make_keys(&self) {
        let entry = words(&self.service("keys")["entrypoint"]);
        assert_eq!(entry[..3], ["/bin/sh", "/keys.sh", "/keys"]);
        let me = format!("{}:{}", nix::unistd::getuid(), nix::unistd::getgid());
        let mut script = Command::new(&entry[0]);
        script.arg(file("compose/keys.sh")).arg(self.path("keys"));
        let status = script.args([&me, &me]).status().unwrap();
        assert!(status.success());
    }

    /// The command of a service.
    fn command(&self, name: &str, before: &[String]) -> Command {
        let service = self.service(name);
        let words: Vec<String> = words(&service["command"])
            .iter()
            .map(|w| self.here(w))
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = command_by(before, &words);
        if let Some(variables) = service["environment"].as_object() {
            for (key, value) in variables {
                command.env(key, self.here(value.as_str().unwrap()));
            }
        }
        command
    }

    fn server(&self, n: usize, before: &[String]) -> Process {
        let etc = self.path("etc");
        let name = format!("server-{}", n + 1);
        let config = self.here(&read("compose/server.yaml"));
        let port = format!("127.0.0.1:{}", self.ports[n]);
        assert!(config.contains("listen: 0.0.0.0:7070"));
        let config = config.replace("0.0.0.0:7070", &port);
        // Each has a port of its own here: the file is read before the next one is written.
        std::fs::write(etc.join("server.yaml"), config).unwrap();
        started(self.command(&name, before))
    }
}

#[test]
fn the_compose_file_s_servers_and_workers_find_each_other_on_a_read_only_root() {
    let Some(stack) = Stack::new() else { return };
    for folder in [
        "keys/server",
        "keys/worker",
        "keys/database",
        "etc",
        "workers",
        "nothing",
    ] {
        std::fs::create_dir_all(stack.path(folder)).unwrap();
    }
    stack.make_keys();
    let token = std::fs::read(stack.path("keys/server/token")).unwrap();
    stack.make_keys();
    let again = std::fs::read(stack.path("keys/server/token")).unwrap();
    assert_eq!(token, again, "made once");
    for secret in [
        "server/token",
        "server/join-token",
        "server/store-password",
        "worker/join-token",
        "database/password",
    ] {
        let path = stack.path("keys").join(secret);
        let mode = std::fs::metadata(&path).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600, "{secret}");
    }
    let url = format!("http://127.0.0.1:{}", stack.ports[0]);
    let early = command(&["ready", "--server", &url]).status().unwrap();
    assert_eq!(early.code(), Some(5), "nobody is there yet");
    // What a server needs is there before: it writes nothing at all.
    let nothing = shut_in(stack.dir.path(), &stack.path("nothing"));
    let _servers: Vec<Process> = (0..2).map(|n| stack.server(n, &nothing)).collect();
    for port in stack.ports {
        let test = words(&stack.service("server-1")["healthcheck"]["test"]);
        assert_eq!(test[..2], ["CMD", "sichen"]);
        let test: Vec<&str> = test[2..].iter().map(String::as_str).collect();
        until("it is healthy", || {
            let mut command = command(&test);
            command.env("SICHEN_SERVER", format!("http://127.0.0.1:{port}"));
            command.status().unwrap().success()
        });
    }
    let config = stack.here(&read("compose/worker.yaml"));
    std::fs::write(stack.path("etc/worker.yaml"), config).unwrap();
    let _workers: Vec<Process> = ["worker-1", "worker-2", "worker-3"]
        .iter()
        .map(|name| {
            let own = stack.path("workers").join(name);
            std::fs::create_dir(&own).unwrap();
            let mut command = stack.command(name, &shut_in(stack.dir.path(), &own));
            command.env("SICHEN_DATA", &own).env("HOME", &own);
            spawned(command)
        })
        .collect();
    let client = Client::new(&url, &stack.path("keys/server"));
    until("three workers are there", || {
        client.json("get workers")["items"].as_array().map(Vec::len) == Some(3)
    });
    let job = json!({
        "apiVersion": "sichen/v1", "kind": "Job", "metadata": { "name": "greet" },
        "spec": { "run": { "handler": "greet" }, "shards": { "count": 6 } },
    });
    let path = stack.path("greet.json");
    std::fs::write(&path, job.to_string()).unwrap();
    client.ok(&format!("apply -f {}", text(&path)));
    client.ok("run greet --key k --wait");
}

#[test]
fn the_compose_file_has_what_it_promises() {
    let compose: Value = serde_saphyr::from_str(&read("compose/compose.yaml")).unwrap();
    let services = compose["services"].as_object().unwrap();
    let named = |kind: &str| services.keys().filter(|n| n.starts_with(kind)).count();
    assert_eq!((named("server-"), named("worker-")), (2, 3));
    for (name, service) in services.iter().filter(|(name, _)| *name != "database") {
        assert_eq!(service["read_only"], true, "{name}");
        assert_eq!(service["cap_drop"], json!(["ALL"]), "{name}");
    }
    let worker: Value = serde_saphyr::from_str(&read("compose/worker.yaml")).unwrap();
    let drain = worker["drain_grace_ms"].as_u64().unwrap();
    let grace = services["worker-1"]["stop_grace_period"].as_str().unwrap();
    let grace: u64 = grace.strip_suffix('s').unwrap().parse().unwrap();
    assert!(grace * 1_000 > drain, "{grace} s, {drain} ms");
    let keys = |name: &str| {
        let volumes = words(&services[name]["volumes"]);
        let keys = volumes.into_iter().filter(|v| v.contains("-keys:"));
        keys.collect::<Vec<_>>()
    };
    assert_eq!(
        keys("worker-1"),
        ["worker-keys:/keys/worker:ro"],
        "not the API's token"
    );
    assert_eq!(keys("server-1"), ["server-keys:/keys/server:ro"]);
}

#[test]
fn the_container_file_s_words_are_ones_that_the_program_knows() {
    let text = read("Containerfile");
    let run = |list: &str| {
        let mut words = words(&serde_json::from_str(list).unwrap());
        words.push("--help".to_owned());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = command(&words).output().unwrap();
        assert!(output.status.success(), "{words:?}");
    };
    let of = |key: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(key))
            .unwrap()
    };
    assert_eq!(of("ENTRYPOINT "), r#"["sichen"]"#);
    run(of("CMD "));
    let (_, health) = of("HEALTHCHECK ").split_once(r#"CMD ["sichen", "#).unwrap();
    run(&format!("[{health}"));
}

/// The parts of a rendered chart, by kind and name.
fn rendered(name: &str) -> Vec<Value> {
    let text = read(&format!("helm/rendered/{name}.yaml"));
    serde_saphyr::from_multiple(&text).unwrap()
}

fn part<'a>(parts: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found = parts
        .iter()
        .find(|p| p["kind"] == kind && p["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}

#[test]
fn the_chart_s_configurations_and_words_are_ones_that_the_program_takes() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["tls", "plain"] {
        let parts = rendered(name);
        let config = &part(&parts, "ConfigMap", "prod")["data"];
        for (key, more) in [("server.yaml", None), ("worker.yaml", Some("--worker"))] {
            let path = dir.path().join(key);
            std::fs::write(&path, config[key].as_str().unwrap()).unwrap();
            let mut words = vec!["config", "check", text(&path)];
            words.extend(more);
            let output = command(&words).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{name} {key}: {said}");
        }
        let server = &part(&parts, "StatefulSet", "prod-server")["spec"]["template"]["spec"];
        let worker = &part(&parts, "Deployment", "prod-worker")["spec"]["template"]["spec"];
        for pod in [server, worker] {
            let container = &pod["containers"][0];
            let mut words = words(&container["args"]);
            words.push("--help".to_owned());
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            assert!(
                command(&words).output().unwrap().status.success(),
                "{words:?}"
            );
            assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
            assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
            let scheme = container["livenessProbe"]["httpGet"]["scheme"].as_str();
            let wanted = if name == "tls" { "HTTPS" } else { "HTTP" };
            assert!(scheme.is_none_or(|scheme| scheme == wanted), "{scheme:?}");
        }
        let drain: Value = serde_saphyr::from_str(config["worker.yaml"].as_str().unwrap()).unwrap();
        let drain = drain["drain_grace_ms"].as_u64().unwrap();
        let grace = worker["terminationGracePeriodSeconds"].as_u64().unwrap();
        assert!(grace * 1_000 > drain, "{grace} s, {drain} ms");
        let of_worker = &worker["volumes"][1]["secret"]["items"];
        assert_eq!(
            *of_worker,
            json!([{ "key": "join-token", "path": "join-token" }])
        );
    }
    let parts = rendered("tls");
    let rules = &part(&parts, "PrometheusRule", "prod")["spec"];
    let own: Value = serde_saphyr::from_str(&read("prometheus-rules.yml")).unwrap();
    assert_eq!(*rules, own);
}
