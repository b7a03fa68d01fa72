//! `sichen server`: one server node.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Map, Value};
use sichen_core::document::Duration as Length;

use super::worker::stdin_end;
use crate::config::{self, ClientAuth, Said, ServerConfig, Setting, traces};
use crate::failure::Failure;
use crate::live::Live;
use crate::logging;
use crate::output;
use crate::serve;
use crate::store_at::StoreAt;

/// Run a server: keeps the hours, hands out the shards, answers the API.
#[derive(Debug, Args)]
pub struct Server {
    /// Its configuration, YAML. Options and the environment go before it.
    #[arg(
        long,
        value_name = "FILE",
        env = "SICHEN_SERVER_CONFIG",
        hide_env_values = true
    )]
    config: Option<PathBuf>,
    #[command(flatten)]
    pub node: NodeArgs,
    /// Its certificate and those that vouch for it, PEM: the API and workers' sessions are then TLS
    /// alone. A renewed file is taken up within a minute.
    #[arg(
        long,
        value_name = "FILE",
        env = "SICHEN_TLS_CERT",
        hide_env_values = true,
        requires = "tls_key"
    )]
    tls_cert: Option<PathBuf>,
    /// The key of that certificate, PEM.
    #[arg(
        long,
        value_name = "FILE",
        env = "SICHEN_TLS_KEY",
        hide_env_values = true,
        requires = "tls_cert"
    )]
    tls_key: Option<PathBuf>,
    /// Certificates, PEM, that may vouch for clients: those are asked for theirs. A renewed file is taken
    /// up within a minute.
    #[arg(
        long,
        value_name = "FILE",
        env = "SICHEN_TLS_CLIENT_CA",
        hide_env_values = true
    )]
    tls_client_ca: Option<PathBuf>,
    /// From whom a certificate is wanted: nobody (one that is shown must be good), workers, or everybody
    /// [default: required].
    #[arg(
        long,
        value_name = "WHO",
        env = "SICHEN_TLS_CLIENT_AUTH",
        hide_env_values = true
    )]
    tls_client_auth: Option<ClientAuth>,
    /// What it logs, to the error output: a level, or levels of parts of it, such as
    /// `warn,sichen_engine=debug` [default: info].
    #[arg(
        long,
        value_name = "LEVELS",
        env = "SICHEN_LOG",
        hide_env_values = true
    )]
    log: Option<String>,
    /// Who is told what is failing, missing, late or stuck: YAML. Give the same file to every server.
    #[arg(
        long,
        value_name = "FILE",
        env = "SICHEN_ALERTS",
        hide_env_values = true
    )]
    alerts: Option<PathBuf>,
    /// The provider by which people log in to the console (OpenID Connect): YAML. Give the same file to every
    /// server.
    #[arg(long, value_name = "FILE", env = "SICHEN_OIDC", hide_env_values = true)]
    oidc: Option<PathBuf>,
    /// Who collects traces of runs: an OpenTelemetry collector that takes OTLP over HTTP, such as
    /// `http://127.0.0.1:4318` [default: what `OTEL_EXPORTER_OTLP_ENDPOINT` says, else nobody].
    #[arg(
        long,
        value_name = "URL",
        env = "SICHEN_TRACES_ENDPOINT",
        hide_env_values = true
    )]
    traces_endpoint: Option<String>,
    /// Which share of the runs is traced, 0 to 1 [default: 1].
    #[arg(
        long,
        value_name = "SHARE",
        env = "SICHEN_TRACES_RATIO",
        hide_env_values = true
    )]
    traces_ratio: Option<f64>,
    /// Stop when the standard input ends: when the process that started it is gone.
    #[arg(long, hide = true)]
    until_stdin_ends: bool,
}

/// What a node is told about itself.
#[derive(Clone, Debug, Args)]
pub struct NodeArgs {
    /// Where it keeps everything [default: `SICHEN_DATA`, else ~/.local/share/sichen].
    #[arg(long, value_name = "DIR", env = "SICHEN_DATA", hide_env_values = true)]
    pub data: Option<PathBuf>,
    /// Where jobs, runs and history are: postgres://USER@HOST/DATABASE [default: SQLite in --data].
    #[arg(long, value_name = "URL", env = "SICHEN_STORE", hide_env_values = true)]
    pub store: Option<StoreAt>,
    /// Where it listens; port 0 takes a free one [default: 127.0.0.1:7070].
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "SICHEN_LISTEN",
        hide_env_values = true
    )]
    pub listen: Option<SocketAddr>,
    /// Where workers reach it when a peer sends them here [default: where it listens].
    #[arg(
        long,
        value_name = "URL",
        env = "SICHEN_ADVERTISE",
        hide_env_values = true
    )]
    pub advertise: Option<String>,
    /// Listen on an address that other machines reach, without encryption: put TLS in front.
    #[arg(long)]
    pub allow_plaintext: bool,
    /// How long a worker's session lives without a beat [default: 15s].
    #[arg(long, value_name = "LENGTH")]
    pub session_ttl: Option<Length>,
    /// How often workers beat; the session must be three beats at least [default: 3s].
    #[arg(long, value_name = "LENGTH")]
    pub beat: Option<Length>,
    /// How long ended runs are kept [default: 720h].
    #[arg(long, value_name = "LENGTH")]
    pub retention: Option<Length>,
}

impl NodeArgs {
    /// As the beginning of a configuration.
    pub fn config(self) -> ServerConfig {
        ServerConfig {
            data: self.data,
            store: self.store,
            listen: self.listen,
            advertise: self.advertise,
            allow_plaintext: self.allow_plaintext.then_some(true),
            session_ttl: self.session_ttl,
            beat: self.beat,
            retention: self.retention,
            ..ServerConfig::default()
        }
    }
}

/// What a server is told.
struct Told {
    options: ServerConfig,
    /// What the options say, over what the file says.
    config: ServerConfig,
    file: Option<(PathBuf, Map<String, Value>)>,
}

fn told(args: Server) -> Result<Told, Failure> {
    let options = ServerConfig {
        tls_cert: args.tls_cert,
        tls_key: args.tls_key,
        tls_client_ca: args.tls_client_ca,
        tls_client_auth: args.tls_client_auth,
        log: args.log.filter(|log| !log.is_empty()),
        alerts: args.alerts,
        oidc: args.oidc,
        traces_endpoint: args.traces_endpoint.filter(|url| !url.is_empty()),
        traces_ratio: args.traces_ratio,
        ..args.node.config()
    };
    let options = options.over(traces::said(&traces::Environment));
    let read = args.config.map(|path| {
        let read = config::read::<ServerConfig>(&path)?;
        Ok::<_, Failure>((path, read))
    });
    let Some((path, read)) = read.transpose()? else {
        return Ok(Told {
            config: options.clone(),
            options,
            file: None,
        });
    };
    Ok(Told {
        config: options.clone().over(read.config),
        options,
        file: Some((path, read.keys)),
    })
}

/// What is in force with these options, and where it came from.
pub fn settings(args: Server) -> Result<Vec<Setting>, Failure> {
    let Told { config, file, .. } = told(args)?;
    config.node()?;
    let whole = serde_json::to_value(config.whole()).unwrap_or_default();
    let whole = whole.as_object().cloned().unwrap_or_default();
    let flags = [
        ("data", "--data", Some("SICHEN_DATA")),
        ("store", "--store", Some("SICHEN_STORE")),
        ("listen", "--listen", Some("SICHEN_LISTEN")),
        ("advertise", "--advertise", Some("SICHEN_ADVERTISE")),
        ("allow_plaintext", "--allow-plaintext", None),
        ("tls_cert", "--tls-cert", Some("SICHEN_TLS_CERT")),
        ("tls_key", "--tls-key", Some("SICHEN_TLS_KEY")),
        (
            "tls_client_ca",
            "--tls-client-ca",
            Some("SICHEN_TLS_CLIENT_CA"),
        ),
        (
            "tls_client_auth",
            "--tls-client-auth",
            Some("SICHEN_TLS_CLIENT_AUTH"),
        ),
        ("alerts", "--alerts", Some("SICHEN_ALERTS")),
        ("oidc", "--oidc", Some("SICHEN_OIDC")),
        (
            "traces_endpoint",
            "--traces-endpoint",
            Some(traces::variable("SICHEN_TRACES_ENDPOINT")),
        ),
        (
            "traces_ratio",
            "--traces-ratio",
            Some("SICHEN_TRACES_RATIO"),
        ),
        ("session_ttl", "--session-ttl", None),
        ("beat", "--beat", None),
        ("retention", "--retention", None),
        ("log", "--log", Some("SICHEN_LOG")),
    ];
    let said = flags.map(|(key, flag, variable)| Said {
        key,
        flag: Some(flag),
        variable,
    });
    let file = file.as_ref().map(|(path, keys)| (path.as_path(), keys));
    let words: Vec<String> = std::env::args().collect();
    Ok(config::settings(whole, &said, file, &words))
}

/// Carries out `sichen server`: until SIGTERM or SIGINT.
pub async fn run(args: Server) -> Result<ExitCode, Failure> {
    let until_stdin_ends = args.until_stdin_ends;
    let Told {
        options,
        config,
        file,
    } = told(args)?;
    let node = config.node()?;
    if let Some(log) = &config.log {
        logging::change(log).map_err(|why| Failure::usage(format!("SC7008: log: {why}")))?;
    }
    let stop = serve::stop_signal()?;
    let live = Live::new(options, file.map(|(path, _)| path), config)?;
    let server = serve::open(&node).await?.living(live);
    output::print(&format!("ready {}\n", server.url()))?;
    if !until_stdin_ends {
        server.run(stop).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let starter_gone = stdin_end()?;
    let stop = async {
        tokio::select! {
            () = stop => {}
            _ = starter_gone => {}
        }
    };
    server.run(stop).await?;
    Ok(ExitCode::SUCCESS)
}
