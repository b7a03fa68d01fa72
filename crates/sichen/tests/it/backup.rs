//! A backup of a server that is at work, and a server that goes on from it.

use std::path::Path;

use crate::program::{Client, Process, command, err, out, start};
use crate::scene::{Kind, Scene, text};

/// Runs the program with these words, which must end with `code`; what it wrote.
pub fn ends(words: &[&str], code: i32) -> String {
    let output = command(words).output().unwrap();
    let said = out(&output) + &err(&output);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
    said
}

/// A server on the data in `data`.
fn serve(data: &Path) -> (Process, Client) {
    let server = start(&["server", "--listen", "127.0.0.1:0", "--data", text(data)]);
    let client = Client::new(&server.url, data);
    (server, client)
}

#[test]
fn a_backup_of_a_working_server_is_restored_elsewhere() {
    let scene = Scene::new(Kind::Sqlite).unwrap();
    let worker = scene.worker("w1", &scene.server.url, 8);
    scene.apply_steps("early", "true", 3);
    scene.client.ok("run early --key k --wait");
    scene.apply_script("open", 4);
    scene.client.ok("run open --key k");
    let token = format!(
        "--namespace * --expires never --out {}",
        text(&scene.path("ci"))
    );
    scene
        .client
        .ok(&format!("token create ci --role viewer {token}"));
    let (data, file) = (scene.path("server"), scene.path("b.db"));
    let made = ends(&["backup", text(&file), "--data", text(&data)], 0);
    assert!(made.contains("instant  20"), "{made}");
    scene.client.ok("run early --key later --wait");
    // The directory is the server's.
    let words = ["restore", text(&file), "--data", text(&data), "--replace"];
    let refused = ends(&words, 4);
    assert!(
        refused.contains("SC3012") && refused.contains("in use by another server"),
        "{refused}"
    );
    ends(&["restore", text(&file), "--check"], 0);
    let told = ends(&["verify", "--file", text(&file)], 2);
    assert!(
        told.contains("no export") && told.contains("--check"),
        "{told}"
    );
    let elsewhere = scene.path("elsewhere");
    let put = ends(&["restore", text(&file), "--data", text(&elsewhere)], 0);
    assert!(put.contains("epoch"), "{put}");
    let (server, client) = serve(&elsewhere);
    assert_eq!(
        client.json("describe run early:manual:k")["run"]["state"],
        "succeeded"
    );
    client.fails("describe run early:manual:later", 3);
    // What may have been revoked meanwhile is named.
    let asked = client.json("restore show");
    assert_eq!(asked["tokens"][0]["name"], "ci", "{asked}");
    client.ok("token revoke ci");
    assert_eq!(client.json("restore show")["tokens"], serde_json::json!([]));
    client.ok("verify");
    // The one that was backed up has not noticed.
    scene.go();
    scene.settles("open:manual:k", "succeeded");
    scene.history_is_accepted();
    drop((server, worker));
}
