//! Configurations that nobody meant.

use sichen_worker::Config;

const WORDS: &[&str] = &[
    "server: ",
    "pool: ",
    "slots: ",
    "labels: ",
    "resources: ",
    "reserve: ",
    "processes: ",
    "secrets: ",
    "command: [",
    "limits: ",
    "memory: ",
    "2GiB",
    "500m",
    "gpu/a100",
    "handlers:\n",
    "  ",
];

#[test]
fn worker_config() {
    sichen_fuzz::fuzz("worker_config", WORDS, &[], |bytes| {
        let text = String::from_utf8_lossy(bytes);
        match Config::from_yaml(&text).map(|config| config.check()) {
            Ok(Ok(())) => "good".to_owned(),
            Ok(Err(error)) | Err(error) => error.to_string(),
        }
    });
}
