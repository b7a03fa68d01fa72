//! What a CronJob's pods start, as lines of a worker's configuration.
//!
//! A job names a handler; which container that is, and with what, is the worker's matter. The lines
//! that would do it with podman are written beside the document.
//!
//! # Not here
//! Starting containers (the worker).

use serde_json::Value;

use super::kubernetes::{Reader, Refused};
use super::source::Level;

const POD: &str = "spec.jobTemplate.spec.template.spec";
const COMPLETION_MODE: &str = "spec.jobTemplate.spec.completionMode";

/// The lines for the worker's configuration.
///
/// # Errors
/// There is no container, or more than one.
pub fn read(reader: &mut Reader<'_>, name: &str) -> Result<Vec<String>, Refused> {
    let field = format!("{POD}.containers");
    let containers = reader.get(&field).as_array().cloned().unwrap_or_default();
    let [container] = containers.as_slice() else {
        let why = format!(
            "{} containers: one is taken over; what runs beside it belongs to the worker",
            containers.len()
        );
        return Err((field, why));
    };
    if !reader.get(&format!("{POD}.initContainers")).is_null() {
        let why = "what runs before the container has no counterpart; make it part of the command";
        return Err((format!("{POD}.initContainers"), why.to_owned()));
    }
    let at = format!("{field}[0]");
    let image = container["image"].as_str().unwrap_or("IMAGE");
    let mut argv = started(reader.get(COMPLETION_MODE).as_str() == Some("Indexed"));
    argv.extend(variables(reader, container, &at));
    let command = texts(&container["command"]);
    if let Some(program) = command.first() {
        argv.extend(["--entrypoint".to_owned(), program.clone()]);
    }
    if let Some(directory) = container["workingDir"].as_str() {
        argv.extend(["--workdir".to_owned(), directory.to_owned()]);
    }
    argv.push(image.to_owned());
    argv.extend(command.into_iter().skip(1));
    argv.extend(texts(&container["args"]));
    if argv.iter().any(|word| word.contains("$(")) {
        let message = "`$(NAME)` is replaced by the cluster, not by a worker";
        reader.say(Level::Warning, &at, message);
    }
    let message = format!(
        "the container {image} becomes the handler {name}: a worker has to offer it, with lines \
         such as those that `sichen import` without --apply writes above the document"
    );
    reader.say(Level::Warning, &at, message);
    let known = ["name", "image", "command", "args", "env", "workingDir"];
    let left = container.as_object().into_iter().flat_map(|c| c.keys());
    let left: Vec<String> = left
        .filter(|k| !known.contains(&k.as_str()))
        .cloned()
        .collect();
    for key in left {
        let message = "left out: what a container needs is set where the worker starts it";
        reader.say(Level::Warning, &format!("{at}.{key}"), message);
    }
    let pod = ["containers", "restartPolicy", "activeDeadlineSeconds"];
    let why = "left out: what a pod needs is set where the worker starts it";
    reader.others(POD, &pod, Level::Warning, why);
    let argv = serde_json::to_string(&argv).unwrap_or_default();
    Ok(vec![
        "worker.yaml, for one that runs it with podman:".to_owned(),
        "  processes:".to_owned(),
        format!("    {name}: {{ argv: {argv} }}"),
    ])
}

/// What starts podman. The container gets what the worker tells a process (`SICHEN_…`): which shard it
/// is, for one. An indexed one is told so by the cluster's name, too.
fn started(indexed: bool) -> Vec<String> {
    let words: &[&str] = match indexed {
        false => &["/usr/bin/podman", "run", "--rm", "--env", "SICHEN_*"],
        true => &[
            "/bin/sh",
            "-c",
            "export JOB_COMPLETION_INDEX=\"$SICHEN_SHARD_INDEX\"; exec /usr/bin/podman \"$@\"",
            "podman",
            "run",
            "--rm",
            "--env",
            "SICHEN_*",
            "--env",
            "JOB_COMPLETION_INDEX",
        ],
    };
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// `--env` for each variable that has a value in the manifest.
fn variables(reader: &mut Reader<'_>, container: &Value, at: &str) -> Vec<String> {
    let mut words = Vec::new();
    let list = container["env"].as_array().cloned().unwrap_or_default();
    for (n, variable) in list.iter().enumerate() {
        let name = variable["name"].as_str().unwrap_or_default();
        match variable["value"].as_str() {
            Some(value) => words.extend(["--env".to_owned(), format!("{name}={value}")]),
            None => {
                let message = format!("{name} comes from the cluster: set it for the worker");
                reader.say(Level::Warning, &format!("{at}.env[{n}]"), message);
            }
        }
    }
    words
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(|text| text.as_str().map(str::to_owned))
        .collect()
}
