//! Connections to a throwaway PostgreSQL server, over its socket.

use sichen_testdb::postgres;

pub struct Server(postgres::Server);

/// Starts a server; `None`, and said so, if PostgreSQL is left out by name.
pub fn start() -> Option<Server> {
    postgres::Server::start(postgres::Options::default()).map(Server)
}

impl Server {
    /// A new connection, driven in the background until the client is dropped.
    pub async fn connect(&self) -> tokio_postgres::Client {
        let mut config = tokio_postgres::Config::new();
        config
            .host_path(self.0.socket_dir())
            .user("postgres")
            .dbname("postgres");
        let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}
