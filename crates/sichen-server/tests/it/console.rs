//! The console's pages: served to anybody, guarded against everybody.

use std::path::Path;

use reqwest::StatusCode;

use crate::node::Node;

#[tokio::test]
async fn every_view_is_the_one_page_and_no_page_runs_foreign_scripts() {
    let node = Node::start().await;
    for path in ["/", "/jobs", "/jobs/default/daily", "/runs/17", "/cluster"] {
        let url = format!("http://{}{path}", node.address);
        let answer = node.client.get(url).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        assert!(header("content-type").starts_with("text/html"), "{path}");
        let policy = header("content-security-policy");
        assert!(policy.contains("script-src 'self';") && policy.contains("frame-ancestors 'none'"));
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("referrer-policy"), "no-referrer");
        let kept = answer.headers().get("cache-control");
        assert!(kept.is_none_or(|kept| kept == "no-cache"), "{path}");
        let text = answer.text().await.unwrap();
        assert!(!text.contains("<script>"), "{path}");
    }
    node.stop().await;
}

#[tokio::test]
async fn no_file_but_the_built_ones_is_served() {
    // The folder that a build makes, so that these paths lead to files where no pages were built.
    let console = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../console");
    std::fs::create_dir_all(console.join("dist/assets")).unwrap();
    let node = Node::start().await;
    for (path, file) in [
        ("/assets/..%2f..%2fpackage.json", "package.json"),
        ("/assets/%2e%2e%2f%2e%2e%2fpackage.json", "package.json"),
        ("/assets/%2E%2E/%2E%2E/package.json", "package.json"),
        ("/jobs/..%2f..%2fpackage.json", "package.json"),
        (
            "/assets/..%2f..%2f..%2fcrates%2fsichen-server%2fCargo.toml",
            "../crates/sichen-server/Cargo.toml",
        ),
    ] {
        let there = std::fs::read_to_string(console.join(file)).unwrap();
        let url = format!("http://{}{path}", node.address);
        let text = node.client.get(url).send().await.unwrap().text().await;
        assert_ne!(text.unwrap(), there, "{path}");
    }
    node.stop().await;
}

#[tokio::test]
async fn what_is_no_page_is_not_served_without_the_token() {
    let node = Node::start().await;
    for (path, status) in [
        ("/no-such-page", 401),
        ("/assets/no-such-file.js", 404),
        ("/assets/%2e%2e%2f%2e%2e%2fpackage.json", 404),
        ("/assets/..%2findex.html", 404),
        ("/api/v1/jobs", 401),
    ] {
        let url = format!("http://{}{path}", node.address);
        let answer = node.client.get(url).send().await.unwrap();
        assert_eq!(answer.status(), status, "{path}");
    }
    node.stop().await;
}
