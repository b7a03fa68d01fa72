//! What tidy looks at: the tracked files, the crates' dependencies, the xtask commands.

use std::collections::BTreeSet;

use anyhow::{Context, Result};

use super::source::Views;
use crate::workspace;

/// One tracked file. Bytes that are no UTF-8 leave the text empty.
#[derive(Debug)]
pub struct File {
    pub path: String,
    pub text: String,
    /// Present for `.rs` files.
    pub rust: Option<Views>,
}

impl File {
    pub fn new(path: &str, text: &str) -> File {
        let rust = path.ends_with(".rs").then(|| Views::of(text));
        File {
            path: path.to_owned(),
            text: text.to_owned(),
            rust,
        }
    }

    /// Code that a generator wrote is held to no style.
    pub fn is_generated(&self) -> bool {
        self.text
            .lines()
            .take(5)
            .any(|line| line.contains("@generated") || line.contains("Do not edit"))
    }

    /// Test code by place: an integration test, a bench, or a sibling `tests.rs` or `*_tests.rs`.
    pub fn is_test(&self) -> bool {
        let path = self.path.as_str();
        path.contains("/tests/")
            || path.starts_with("tests/")
            || path.contains("/benches/")
            || path.ends_with("/tests.rs")
            || path.ends_with("_tests.rs")
    }

    /// The crate's folder name for a file under `crates/`, else the first folder.
    pub fn krate(&self) -> &str {
        let path = self.path.strip_prefix("crates/").unwrap_or(&self.path);
        path.split('/').next().unwrap_or("")
    }

    pub fn has_extension(&self, extension: &str) -> bool {
        self.path
            .rsplit_once('.')
            .is_some_and(|(_, last)| last == extension)
    }
}

/// One line of a crate's `Cargo.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    pub from: String,
    pub to: String,
    /// `[dev-dependencies]`: may look where the product may not.
    pub dev: bool,
}

#[derive(Debug)]
pub struct Tree {
    pub files: Vec<File>,
    pub dependencies: Vec<Dependency>,
    pub xtask_commands: Vec<String>,
    paths: BTreeSet<String>,
}

impl Tree {
    pub fn new(
        files: Vec<File>,
        dependencies: Vec<Dependency>,
        xtask_commands: Vec<String>,
    ) -> Tree {
        let mut paths = BTreeSet::new();
        for file in &files {
            let mut path = file.path.as_str();
            paths.insert(path.to_owned());
            while let Some((parent, _)) = path.rsplit_once('/') {
                paths.insert(parent.to_owned());
                path = parent;
            }
        }
        Tree {
            files,
            dependencies,
            xtask_commands,
            paths,
        }
    }

    /// The tree of this workspace.
    ///
    /// # Errors
    /// When git or cargo can't list it, or a file can't be read.
    pub fn of_workspace(xtask_commands: Vec<String>) -> Result<Tree> {
        let root = workspace::root();
        let mut files = Vec::new();
        for path in workspace::files()? {
            let bytes = std::fs::read(root.join(&path)).with_context(|| format!("read {path}"))?;
            files.push(File::new(
                &path,
                &String::from_utf8(bytes).unwrap_or_default(),
            ));
        }
        Ok(Tree::new(
            files,
            dependencies(&workspace::metadata()?),
            xtask_commands,
        ))
    }

    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether a tracked file or folder has this path.
    pub fn exists(&self, path: &str) -> bool {
        self.paths.contains(path.trim_end_matches('/'))
    }

    /// Hand-written Rust with its views.
    pub fn rust_files(&self) -> impl Iterator<Item = (&File, &Views)> {
        self.files
            .iter()
            .filter(|file| !file.is_generated())
            .filter_map(|file| file.rust.as_ref().map(|views| (file, views)))
    }
}

fn dependencies(metadata: &serde_json::Value) -> Vec<Dependency> {
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let mut all = Vec::new();
    for package in list(&metadata["packages"]) {
        for dependency in list(&package["dependencies"]) {
            all.push(Dependency {
                from: word(&package["name"]),
                to: word(&dependency["name"]),
                dev: dependency["kind"].as_str() == Some("dev"),
            });
        }
    }
    all
}
