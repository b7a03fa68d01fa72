//! Claims about `members`.

use super::*;

#[test]
fn the_owner_of_a_duty_is_found_and_what_else_it_has() {
    let members: Members = serde_json::from_value(serde_json::json!({
        "this_node": 2,
        "nodes": [
            { "id": 1, "address": "http://127.0.0.1:1", "expires_at": "" },
            { "id": 2, "address": "http://127.0.0.1:2", "expires_at": "" },
        ],
        "duties": [
            { "key": "trigger/1", "term": 1, "node": 1 },
            { "key": "trigger/2", "term": 1, "node": 2 },
            { "key": "trigger/3", "term": 1, "node": 2 },
            { "key": "pool/default", "term": 4, "node": 2 },
            { "key": "janitor", "term": 1 },
            { "key": "alerts", "term": 1, "node": 3 },
        ],
    }))
    .unwrap();
    assert_eq!(members.owner(POOL), Some("http://127.0.0.1:2"));
    assert_eq!(members.owner("janitor"), None);
    // Its owner's lease is over: there is nobody to be killed.
    assert_eq!(members.owner("alerts"), None);
    assert_eq!(
        members.held("127.0.0.1:2"),
        ["pool/default", "2 trigger partitions"]
    );
    assert_eq!(members.held("http://127.0.0.1:1"), ["1 trigger partitions"]);
    assert!(members.held("http://127.0.0.1:3").is_empty());
}
