//! Claims about `evidence`.

use super::*;

#[test]
fn half_a_line_of_a_killed_task_is_no_evidence() {
    let whole = r#"{"kind":"begin","job":"a","planned_us":1,"shard":0,"attempt":1,"token":7,"worker":"w","at_us":5}"#;
    let text = format!("{whole}\n{}", &whole[..40]);
    let lines = read(&text);
    assert_eq!(lines.len(), 1);
    let attempts = attempts(&lines);
    assert_eq!((attempts[0].began_us, attempts[0].ended_us), (5, None));
}
