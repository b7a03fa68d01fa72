//! A throwaway server, and stores in schemas of it.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use sichen_store::clock::Clock;
use sichen_store::postgres::{Options, PostgresStore};
use sichen_testdb::pgbouncer::Pgbouncer;
use sichen_testdb::postgres;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

/// The runtime of all calls; tests themselves have none.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime starts")
    })
}

pub struct Server {
    server: postgres::Server,
    schemas: AtomicU32,
}

impl Server {
    /// A new, empty server; `None`, and said so, if PostgreSQL is left out by name.
    pub fn start() -> Option<Self> {
        Self::start_with(postgres::Options::default())
    }

    pub fn start_with(options: postgres::Options) -> Option<Self> {
        Some(Self {
            server: postgres::Server::start(options)?,
            schemas: AtomicU32::new(0),
        })
    }

    /// Starts the server again.
    pub fn run(&mut self) {
        self.server.start_again();
    }

    /// Stops the server at once, as a crash would, and waits for its end.
    pub fn stop(&mut self) {
        self.server.stop_at_once();
    }

    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// The folder of its socket, and the port it is named after.
    pub fn address(&self) -> (&std::path::Path, u16) {
        (self.server.socket_dir(), self.server.socket_port())
    }

    /// Its socket.
    pub fn socket(&self) -> std::path::PathBuf {
        let (dir, port) = self.address();
        dir.join(format!(".s.PGSQL.{port}"))
    }

    /// A pooler before it that has `size` server connections a schema; `None`, and said so, if that is
    /// left out by name.
    pub fn pooler(&self, size: u32, more: &str) -> Option<Pgbouncer> {
        Pgbouncer::start(&self.server, size, more)
    }

    /// Starts a pooler that was stopped.
    pub fn run_pooler(&self, pooler: &mut Pgbouncer) {
        pooler.run(&self.server);
    }

    pub fn url(&self, schema: &str) -> String {
        format!(
            "host={} port={} user=postgres dbname=postgres options='-c search_path={schema}'",
            self.server.socket_dir().display(),
            self.server.socket_port()
        )
    }

    /// The name of a new, empty schema.
    pub fn new_schema(&self) -> String {
        let n = self.schemas.fetch_add(1, Ordering::SeqCst);
        let name = format!("s{n}");
        self.execute("public", &format!("create schema {name}"));
        name
    }

    /// A store in `schema`.
    pub fn open(&self, schema: &str, clock: Option<Arc<dyn Clock>>) -> PostgresStore {
        let options = Options {
            clock,
            unsafe_durability: true,
            connections: 4,
            ..Options::default()
        };
        let opened = runtime().block_on(PostgresStore::open(&self.url(schema), options));
        opened.expect("it opens")
    }

    /// A connection of one's own.
    pub fn connect(&self, schema: &str) -> Client {
        runtime().block_on(async {
            let (client, connection) = tokio_postgres::connect(&self.url(schema), NoTls)
                .await
                .expect("it connects");
            runtime().spawn(connection);
            client
        })
    }

    pub fn execute(&self, schema: &str, statement: &str) {
        let client = self.connect(schema);
        let done = runtime().block_on(client.batch_execute(statement));
        done.unwrap_or_else(|e| panic!("{statement}\n{e:?}"));
    }
}
