//! Names of points.

use super::*;

trait Store {
    fn lease_shards(&self) -> &'static str;
}

impl Store for u8 {
    fn lease_shards(&self) -> &'static str {
        let once = |n: u8| move || n;
        use_case(&once(*self))
    }
}

#[test]
fn a_use_case_is_named_by_the_method_it_stands_in() {
    assert_eq!(0_u8.lease_shards(), "lease_shards");
}

#[test]
fn no_point_is_listed_twice() {
    let all = all();
    let mut names: Vec<&String> = all.iter().map(|(_, name)| name).collect();
    names.sort();
    let listed = names.len();
    names.dedup();
    assert_eq!(names.len(), listed);
}
