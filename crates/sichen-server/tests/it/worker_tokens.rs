//! What a worker's token opens, spoken by hand: no worker of the project stands between the test and the
//! server, so the test may say what none of them would.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use sichen_proto::PROTOCOL_VERSION;
use sichen_proto::v1;
use sichen_proto::v1::server_message::Message as FromServer;
use sichen_proto::v1::sessions_client::SessionsClient;
use sichen_proto::v1::worker_message::Message as ToServer;
use sichen_server::rest::wire::{MadeToken, StartedRun, Token};
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Endpoint;

use crate::node::{Node, PATIENCE, json as body_of, problem, until};

/// A stream to a node, and what the node says on it.
pub struct Wire {
    out: mpsc::Sender<v1::WorkerMessage>,
    answers: Streaming<v1::ServerMessage>,
}

impl Wire {
    /// Opens a stream with this header `authorization`, or with none.
    pub async fn open(node: &Node, header: Option<&str>) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{}", node.address)).unwrap();
        let channel = endpoint.connect().await.unwrap();
        let (out, messages) = mpsc::channel(2_048);
        let mut request = tonic::Request::new(ReceiverStream::new(messages));
        if let Some(header) = header {
            let header = header.parse().unwrap();
            request.metadata_mut().insert("authorization", header);
        }
        let answers = SessionsClient::new(channel).connect(request).await;
        let answers = answers.unwrap().into_inner();
        Self { out, answers }
    }

    pub async fn say(&self, message: ToServer) {
        let message = v1::WorkerMessage {
            message: Some(message),
        };
        // The node may have closed the stream; what it said last tells why.
        let _ = self.out.send(message).await;
    }

    /// The next message; `None` when the node has ended the stream.
    pub async fn next(&mut self) -> Option<FromServer> {
        let next = tokio::time::timeout(PATIENCE, self.answers.next()).await;
        next.expect("an answer in time")?.ok()?.message
    }

    /// The next message that is no answer to a beat, while the session goes on.
    pub async fn next_beating(&mut self) -> Option<FromServer> {
        loop {
            let next = tokio::time::timeout(Duration::from_millis(500), self.answers.next()).await;
            match next {
                Err(_) => self.beat(&[]).await,
                Ok(next) => match next?.ok()?.message? {
                    FromServer::BeatAck(_) => {}
                    other => return Some(other),
                },
            }
        }
    }

    async fn beat(&self, running: &[v1::Held]) {
        let beat = v1::Beat {
            running: running.to_vec(),
            ..v1::Beat::default()
        };
        self.say(ToServer::Beat(beat)).await;
    }

    async fn refused(&mut self) -> v1::Refused {
        let refused = match self.next().await {
            Some(FromServer::Refused(refused)) => refused,
            other => panic!("{other:?}"),
        };
        let end = self.next().await;
        assert!(end.is_none(), "the stream goes on: {end:?}");
        refused
    }
}

/// A worker of the default pool that takes what it is granted and never ends it.
pub struct Idle {
    _wire: Wire,
}

impl Idle {
    /// One with room for all.
    pub async fn join(node: &Node) -> Self {
        let bearer = format!("Bearer {}", node.join_token());
        let mut wire = Wire::open(node, Some(&bearer)).await;
        let hello = v1::Hello {
            slots: 8,
            ..hello("idle", "uid-idle", "default")
        };
        wire.say(ToServer::Hello(hello)).await;
        let welcome = wire.next().await;
        assert!(
            matches!(welcome, Some(FromServer::Welcome(_))),
            "{welcome:?}"
        );
        Self { _wire: wire }
    }
}

pub fn hello(name: &str, uid: &str, pool: &str) -> v1::Hello {
    v1::Hello {
        protocol_version: PROTOCOL_VERSION,
        worker_name: name.to_owned(),
        worker_uid: uid.to_owned(),
        boot_id: "boot".to_owned(),
        incarnation: format!("first of {uid}"),
        start: 1,
        registration: 1,
        pool: pool.to_owned(),
        slots: 1,
        handlers: vec!["work".to_owned()],
        ..v1::Hello::default()
    }
}

async fn events(node: &Node) -> Vec<Value> {
    let events: Value = node.read("/api/v1/events?limit=1000").await;
    events["items"].as_array().unwrap().clone()
}

/// SEC-002: what is no join token, however it is sent, lets nobody join, and all are told the same.
#[tokio::test]
async fn no_worker_joins_with_what_is_no_join_token() {
    let node = Node::start().await;
    let join = node.join_token();
    let before = events(&node).await;
    let cut = &join[..join.len() - 1];
    let headers = [
        None,
        Some(String::new()),
        Some("Bearer".to_owned()),
        Some("Bearer ".to_owned()),
        Some("Bearer null".to_owned()),
        Some("Bearer undefined".to_owned()),
        Some("null".to_owned()),
        Some(join.clone()),
        Some(format!("Bearer {cut}")),
        Some(format!("Bearer {join}0")),
        Some(format!("Bearer {}", join.to_uppercase())),
        Some(format!("Basic {join}")),
        // Of the API, which is not for workers.
        Some(format!("Bearer {}", node.token)),
    ];
    let mut told = Vec::new();
    for header in &headers {
        let mut wire = Wire::open(&node, header.as_deref()).await;
        wire.say(ToServer::Hello(hello("w", "uid", "default")))
            .await;
        let refused = wire.refused().await;
        assert_eq!(refused.code, "bad-join-token", "{header:?}");
        told.push(refused.message);
    }
    assert!(told[0].contains("SC4005"), "{told:?}");
    assert!(told.iter().all(|words| *words == told[0]), "{told:?}");
    assert_eq!(events(&node).await, before, "nothing was registered");
    node.stop().await;
}

/// A worker that was let in, and what it was granted.
pub struct Joined {
    pub wire: Wire,
    pub session: u64,
    pub grant: v1::Grant,
}

/// A node on which two workers of one pool and one of another hold a shard each, each with a token of its own.
pub struct World {
    pub node: Node,
    pub secrets: Vec<String>,
    pub workers: Vec<Joined>,
    /// A run that nobody has, once there is one.
    queued: Option<u64>,
}

const WORKERS: [(&str, &str, &str); 3] = [
    ("w1", "default", "mine"),
    ("w2", "default", "theirs"),
    ("w3", "gpu", "secret"),
];

impl World {
    pub async fn new() -> Self {
        Self::with(false).await
    }

    /// The same, in which each token is for the worker of its own name alone, if so.
    pub async fn with(bound: bool) -> Self {
        let node = Node::impatient().await;
        let documents: Vec<String> = WORKERS
            .iter()
            .map(|(_, pool, job)| job_in(pool, job))
            .collect();
        let applied = node
            .post("/api/v1/jobs:apply", documents.join("---\n"))
            .await;
        body_of::<Value>(applied).await;
        let (mut secrets, mut workers) = (Vec::new(), Vec::new());
        for (name, pool, job) in WORKERS {
            let named = if bound { vec![name] } else { Vec::new() };
            let asked = json!({ "name": name, "pool": pool, "workers": named }).to_string();
            let made: MadeToken = body_of(node.post("/api/v1/tokens", asked).await).await;
            let mut wire = Wire::open(&node, Some(&format!("Bearer {}", made.secret))).await;
            wire.say(ToServer::Hello(hello(name, &format!("uid-{name}"), pool)))
                .await;
            let Some(FromServer::Welcome(welcome)) = wire.next().await else {
                panic!("{name} is welcome");
            };
            start(&node, job, "k").await;
            let Some(FromServer::Grant(grant)) = wire.next_beating().await else {
                panic!("{name} is granted its run");
            };
            secrets.push(made.secret);
            workers.push(Joined {
                wire,
                session: welcome.session_id,
                grant,
            });
        }
        Self {
            node,
            secrets,
            workers,
            queued: None,
        }
    }

    /// The shards of all runs, as the API shows them, without what a beat moves.
    pub async fn shards(&self) -> Vec<Value> {
        let runs = self.workers.iter().map(|w| w.grant.shard.unwrap().run_id);
        let mut all = Vec::new();
        for run in runs.chain(self.queued) {
            let run: Value = self.node.read(&format!("/api/v1/runs/{run}/shards")).await;
            for shard in run["items"].as_array().unwrap() {
                all.push(json!([
                    shard["state"],
                    shard["attempt"],
                    shard["token"],
                    shard["checkpoint"]
                ]));
            }
        }
        all
    }

    /// All workers say that they run what they hold.
    pub async fn beat(&self) {
        for Joined { wire, grant, .. } in &self.workers {
            let held = v1::Held {
                shard: grant.shard,
                token: grant.token,
                ..v1::Held::default()
            };
            wire.beat(&[held]).await;
        }
    }
}

fn job_in(pool: &str, name: &str) -> String {
    format!(
        "apiVersion: sichen/v1\nkind: Job\nmetadata: {{name: {name}, namespace: of-{name}}}\n\
         spec:\n  pool: {pool}\n  run: {{handler: work}}\n  retry: {{maxAttempts: 9, backoff: {{fixed: 1s}}}}\n"
    )
}

async fn start(node: &Node, job: &str, key: &str) -> u64 {
    let path = format!("/api/v1/jobs/of-{job}/{job}/runs");
    let asked = json!({ "key": key }).to_string();
    body_of::<StartedRun>(node.post(&path, asked).await)
        .await
        .id
}

pub fn finish(run: u64, token: u64, outcome: v1::Outcome, digest: &str) -> v1::Finish {
    v1::Finish {
        shard: Some(v1::ShardRef { run_id: run, no: 0 }),
        token,
        outcome: outcome.into(),
        digest: digest.as_bytes().to_vec(),
        ..v1::Finish::default()
    }
}

/// SEC-010: with the token of one worker nothing is ended, moved or learnt of what others hold, whatever is said;
/// each try stands in the log, and none of a thousand does more than the first.
#[tokio::test]
async fn a_worker_s_token_reaches_its_own_leases_alone() {
    let mut world = World::new().await;
    let (own, others) = (
        world.workers[0].grant.clone(),
        world.workers[1].grant.clone(),
    );
    let elsewhere = world.workers[2].grant.clone();
    let run = |grant: &v1::Grant| grant.shard.unwrap().run_id;
    // An attempt of its own that is over, so that it has an old token too.
    let failed = finish(run(&own), own.token, v1::Outcome::Failed, "failed");
    let mine = &mut world.workers[0].wire;
    mine.say(ToServer::Finish(failed)).await;
    let mut accepted = false;
    let again = loop {
        match mine.next_beating().await {
            Some(FromServer::FinishAck(ack)) => accepted = ack.verdict() == v1::Verdict::Accepted,
            Some(FromServer::Grant(grant)) => break grant,
            other => panic!("{other:?}"),
        }
    };
    assert!(accepted && again.token > own.token);
    world.workers[0].grant = again.clone();
    let queued = start(&world.node, "theirs", "waits").await;
    world.queued = Some(queued);
    world.beat().await;
    let before = world.shards().await;

    let done = |run, token| finish(run, token, v1::Outcome::Succeeded, "done");
    let wrong = [
        done(run(&others), others.token),
        finish(
            run(&others),
            others.token,
            v1::Outcome::Released,
            "given back",
        ),
        finish(run(&others), others.token, v1::Outcome::Failed, "failed"),
        done(run(&others), others.token + 1),
        done(run(&elsewhere), elsewhere.token),
        done(queued, 1),
        done(run(&own), own.token),
        done(run(&own), again.token + 1),
        done(999_999, 1),
    ];
    let many = std::iter::repeat_n(&wrong[0], 1_000);
    let said: Vec<&v1::Finish> = wrong.iter().chain(many).collect();
    for (n, report) in said.iter().enumerate() {
        if n % 50 == 0 {
            world.beat().await;
        }
        let mine = &mut world.workers[0].wire;
        mine.say(ToServer::Finish((*report).clone())).await;
        let ack = loop {
            match mine.next().await {
                Some(FromServer::FinishAck(ack)) => break ack,
                Some(FromServer::BeatAck(_)) => {}
                other => panic!("{report:?}: {other:?}"),
            }
        };
        assert_eq!((ack.shard, ack.token), (report.shard, report.token));
        let refused = matches!(ack.verdict(), v1::Verdict::Stale | v1::Verdict::Conflict);
        assert!(refused, "{report:?}: {ack:?}");
    }
    let checkpoint = v1::CheckpointReport {
        shard: others.shard,
        token: others.token,
        checkpoint: Some(v1::Checkpoint {
            seq: 1,
            position: b"forged".to_vec(),
            counters: None,
        }),
    };
    let mine = &mut world.workers[0].wire;
    mine.say(ToServer::Checkpoint(checkpoint)).await;
    loop {
        match mine.next().await {
            Some(FromServer::CheckpointAck(_)) => break,
            Some(FromServer::BeatAck(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    // It lists the shard of another among its own: it is told to stop it.
    let held = |grant: &v1::Grant| v1::Held {
        shard: grant.shard,
        token: grant.token,
        ..v1::Held::default()
    };
    let forged = v1::Beat {
        seq: 4_711,
        running: vec![held(&again), held(&others)],
        ..v1::Beat::default()
    };
    mine.say(ToServer::Beat(forged)).await;
    let ack = loop {
        match mine.next().await {
            Some(FromServer::BeatAck(ack)) if ack.seq == 4_711 => break ack,
            Some(FromServer::BeatAck(_)) => {}
            other => panic!("{other:?}"),
        }
    };
    let stopped: Vec<_> = ack.stop.iter().map(|stop| stop.shard).collect();
    assert_eq!(stopped, [others.shard]);
    world.beat().await;
    assert_eq!(world.shards().await, before, "nothing moved");
    let refused = events(&world.node).await;
    let refused = refused
        .iter()
        .filter(|event| event["kind"] == "report_refused");
    let by: Vec<&Value> = refused.map(|event| &event["actor"]).collect();
    assert!(by.len() >= wrong.len() - 2, "{by:?}");
    assert!(by.iter().all(|actor| *actor == "worker w1"), "{by:?}");

    // What is another's session, name or pool stays that one's.
    let bearer = format!("Bearer {}", world.secrets[0]);
    let taken = world.workers[1].session;
    for (what, hello) in [
        (
            "session",
            v1::Hello {
                resume_session: Some(taken),
                ..hello("w2", "uid-w1", "default")
            },
        ),
        ("pool", hello("w3", "uid-w3", "gpu")),
    ] {
        let mut wire = Wire::open(&world.node, Some(&bearer)).await;
        wire.say(ToServer::Hello(hello)).await;
        match wire.next().await {
            Some(FromServer::SessionLost(_)) => assert_eq!(what, "session"),
            Some(FromServer::Refused(refused)) => {
                assert_eq!((what, &*refused.code), ("pool", "outside-join-token"))
            }
            other => panic!("{what}: {other:?}"),
        }
    }
    let mut namesake = Wire::open(&world.node, Some(&bearer)).await;
    namesake
        .say(ToServer::Hello(hello("w2", "uid-other", "default")))
        .await;
    let Some(FromServer::Welcome(welcome)) = namesake.next().await else {
        panic!("a name is no identity");
    };
    assert!(welcome.session_id > taken);
    world.beat().await;
    assert_eq!(
        world.shards().await[1],
        before[1],
        "its namesake took nothing of it"
    );
    for path in ["/api/v1/jobs", "/api/v1/runs", "/api/v1/me", "/metrics"] {
        let url = format!("http://{}{path}", world.node.address);
        let answer = world
            .node
            .client
            .get(url)
            .bearer_auth(&world.secrets[0])
            .send()
            .await;
        problem(answer.unwrap(), 401).await;
    }

    // Who holds them ends them.
    let mine = done(run(&others), others.token);
    let theirs = &mut world.workers[1].wire;
    theirs.say(ToServer::Finish(mine)).await;
    let ack = loop {
        match theirs.next_beating().await {
            Some(FromServer::FinishAck(ack)) => break ack,
            Some(FromServer::Grant(_)) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ack.verdict(), v1::Verdict::Accepted);
    world.node.stop().await;
}

/// SEC-010: a token is one worker's if it is made for one: taken back, it ends that worker's stream, its leases
/// end with its session, and its neighbours go on.
#[tokio::test]
async fn a_token_that_is_taken_back_ends_the_leases_of_its_worker_alone() {
    let mut world = World::new().await;
    let run = world.workers[0].grant.shard.unwrap().run_id;
    let revoked = world
        .node
        .send(Method::DELETE, "/api/v1/tokens/w1", "")
        .await;
    assert_eq!(body_of::<Token>(revoked).await.state, "revoked");
    world.beat().await;
    let mine = &mut world.workers[0].wire;
    let refused = loop {
        match mine.next().await {
            Some(FromServer::Refused(refused)) => break refused,
            Some(FromServer::BeatAck(_)) => {}
            other => panic!("{other:?}"),
        }
    };
    assert!(
        refused.message.contains("SC4005") && refused.message.contains("revoked"),
        "{refused:?}"
    );
    assert!(mine.next().await.is_none(), "its stream is over");
    let bearer = format!("Bearer {}", world.secrets[0]);
    let mut again = Wire::open(&world.node, Some(&bearer)).await;
    again
        .say(ToServer::Hello(hello("w1", "uid-w1", "default")))
        .await;
    assert_eq!(again.refused().await.code, "bad-join-token");
    let world = &world;
    until("its lease ends with its session", || async {
        world.beat().await;
        let shards: Value = world.node.read(&format!("/api/v1/runs/{run}/shards")).await;
        shards["items"][0]["state"] != "running"
    })
    .await;
    let shards = world.shards().await;
    assert_eq!(
        (&shards[1][0], &shards[2][0]),
        (&"running".into(), &"running".into()),
        "{shards:?}"
    );
    let kinds: Vec<String> = events(&world.node)
        .await
        .iter()
        .map(|e| e["kind"].to_string())
        .collect();
    assert!(
        kinds.contains(&"\"access_token_revoked\"".to_owned()),
        "{kinds:?}"
    );
}
