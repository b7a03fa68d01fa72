//! Builds the console's pages (`console/` → `console/dist`) in a release build.
//!
//! A debug build, `cargo check` and clippy run no npm: their binary reads `console/dist` when it
//! starts to serve, if somebody has built it. Where Node is missing the build says so and goes on;
//! the page that is then served says how to get the console.
//!
//! A release build embeds what it has built itself, or nothing: pages of an older build would not fit
//! the server.
//!
//! `SICHEN_CONSOLE` steers it: `skip` builds nothing, so that a release has no console; `build` builds
//! in every profile and fails where it can't.

use std::path::Path;
use std::process::Command;

/// What the pages are made of; a change of these builds them again.
const SOURCES: &[&str] = &[
    "src",
    "public",
    "scripts",
    "index.html",
    "package.json",
    "package-lock.json",
    "vite.config.ts",
    "tsconfig.json",
];

fn main() {
    println!("cargo:rustc-check-cfg=cfg(left_out)");
    println!("cargo:rerun-if-env-changed=SICHEN_CONSOLE");
    let console = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../console");
    for source in SOURCES {
        println!("cargo:rerun-if-changed={}", console.join(source).display());
    }
    // What reads it in a debug build takes its place from how it was found at compile time: it has to be
    // there, if empty, for pages that are built later to be found. One that can't be made has none.
    let _ = std::fs::create_dir_all(console.join("dist"));
    let wish = std::env::var("SICHEN_CONSOLE").unwrap_or_default();
    let release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if wish == "skip" && release {
        leave_out();
    }
    if wish == "skip" || (wish != "build" && !release) {
        return;
    }
    if let Err(why) = build(&console) {
        assert!(wish != "build", "the console can't be built: {why}");
        leave_out();
        println!("cargo:warning=the console is not in this build: {why}");
        println!(
            "cargo:warning=install Node.js 20.19 or newer with npm and build again, or set SICHEN_CONSOLE=skip"
        );
    }
}

/// No pages, though `console/dist` may have some.
fn leave_out() {
    println!("cargo:rustc-cfg=left_out");
}

fn build(console: &Path) -> Result<(), String> {
    let npm = |words: &[&str]| {
        let status = Command::new("npm")
            .args(words)
            .current_dir(console)
            .output()
            .map_err(|error| format!("npm can't be started ({error})"))?;
        if status.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&status.stderr);
        let last = said.lines().rev().find(|line| !line.trim().is_empty());
        Err(format!(
            "`npm {}` failed: {}",
            words.join(" "),
            last.unwrap_or("it said nothing")
        ))
    };
    npm(&["ci"])?;
    npm(&["run", "build"])
}
