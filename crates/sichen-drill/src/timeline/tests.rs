//! Claims about `timeline`.

use super::*;
use crate::drill::{Act, Who};

#[test]
fn the_picture_has_instants_tasks_and_the_window_of_the_fault() {
    let occasion = Occasion {
        job: "a<b".into(),
        shard: 0,
        planned_us: 2_000_000,
    };
    let attempt = Attempt {
        occasion: occasion.clone(),
        token: 7,
        worker: "worker-1".into(),
        began_us: 2_100_000,
        ended_us: None,
        refused: true,
        steps: 0,
        last_us: 3_000_000,
    };
    let fault = Done {
        act: Act::Freeze { who: Who::AWorker },
        victim: "worker-1".into(),
        at_us: 2_500_000,
        healed_us: 9_000_000,
        hit: true,
        held: Vec::new(),
        in_flight: Vec::new(),
        lost_bytes: 0,
        can_miss: true,
    };
    let svg = svg(&Scene {
        title: "freeze",
        load_us: (0, 10_000_000),
        planned: &[occasion],
        attempts: &[attempt],
        faults: &[fault],
    });
    for part in [
        "a&lt;b 0",
        "refused by the fence",
        "freeze worker-1",
        "10 s",
        "</svg>",
    ] {
        assert!(svg.contains(part), "{part}: {svg}");
    }
}
