//! Opens the storage engine: the only module that names a concrete one.

use crate::binlog;
use crate::config::{ClusterUrl, Config, DurabilityChoice, EngineChoice, StartError};
use porpoise_base::disk::{self, Disk};
use porpoise_kv::{Durability, Engine};
use porpoise_kv_mem::{KvMem, KvMemOptions, MemoryUse};
use std::sync::Arc;

/// Directory of the embedded engine's files, within the data directory.
pub const STORE: &str = "store";

/// Checks, if the configuration requires an existing store, that the data directory has one.
/// Creates neither the directory nor a file in it.
///
/// # Errors
/// There is no store, or the configured engine does not use the data directory.
pub fn check_required_data(config: &Config) -> Result<(), StartError> {
    if !config.require_data {
        return Ok(());
    }
    let on_disk = config.durability != DurabilityChoice::Memory;
    if config.engine != EngineChoice::Embedded || !on_disk {
        let message = "--require-data needs the embedded engine with a store on disk (not --durability memory, not TiKV)";
        return Err(StartError::usage(message));
    }
    let (at, store) = (config.data_dir.display(), config.data_dir.join(STORE));
    let found = store.is_dir() && {
        let found = KvMem::is_store(&*disk::real(), &store);
        found.map_err(|e| StartError::usage(format!("--require-data: {e}")))?
    };
    if found {
        Ok(())
    } else {
        Err(StartError::usage(format!(
            "--require-data: data directory {at} contains no store; mount its volume, or start once \
             without --require-data to create a store"
        )))
    }
}

/// Opens the engine that the configuration names; the embedded one keeps its
/// files on `disk`. The data directory is locked by the caller.
///
/// # Errors
/// A message for the operator in one line: a cluster that cannot be reached, data with wrong
/// checksums.
pub fn open(config: &Config, disk: Arc<dyn Disk>) -> Result<Arc<dyn Engine>, StartError> {
    open_with_backups(config, disk).map(|(engine, _)| engine)
}

/// An open engine, and the embedded engine if it is that one.
pub type OpenEngine = (Arc<dyn Engine>, Option<Arc<KvMem>>);

/// As [`open`]. Also returns the embedded engine, if it is that one, which can be backed up.
///
/// # Errors
/// As [`open`], and options that the engine does not support.
pub fn open_with_backups(config: &Config, disk: Arc<dyn Disk>) -> Result<OpenEngine, StartError> {
    match &config.engine {
        EngineChoice::Embedded => {
            binlog::mark_unlogged(config, &*disk)?;
            let engine = open_embedded(config, disk)?;
            Ok((engine.clone(), Some(engine)))
        }
        EngineChoice::Tikv(url) => {
            if config.log_bin || config.replication_ack.is_some() {
                let message = "--log-bin needs the embedded engine: a TiKV cluster has no order of commits that one server knows; follow it by its own tool, TiCDC";
                return Err(StartError::usage(message));
            }
            if config.archive_to.is_some() || config.backup_to.is_some() {
                let message = "--backup-to and --archive-to need the embedded engine; a TiKV cluster is backed up by its own tool, BR";
                return Err(StartError::usage(message));
            }
            if config.durability != DurabilityChoice::Sync {
                let message = "--durability: a TiKV cluster supports only sync";
                return Err(StartError::usage(message));
            }
            Ok((open_cluster(url)?, None))
        }
    }
}

/// Opens the embedded engine. Also returns a function that measures the engine's use of memory by
/// reading every row.
///
/// # Errors
/// As [`open`].
pub fn open_measured(
    config: &Config,
    disk: Arc<dyn Disk>,
) -> Result<(Arc<dyn Engine>, impl Fn() -> MemoryUse + use<>), StartError> {
    let engine = open_embedded(config, disk)?;
    Ok((engine.clone(), move || engine.memory()))
}

fn open_embedded(config: &Config, disk: Arc<dyn Disk>) -> Result<Arc<KvMem>, StartError> {
    let (dir, durability) = match config.durability {
        DurabilityChoice::Sync => (Some(config.data_dir.join(STORE)), Durability::Sync),
        DurabilityChoice::Interval => (
            Some(config.data_dir.join(STORE)),
            Durability::Interval(config.durability_interval),
        ),
        DurabilityChoice::Memory => (None, Durability::Memory),
    };
    if config.log_bin && durability == Durability::Memory {
        let message = "--log-bin: with --durability memory there is no log";
        return Err(StartError::usage(message));
    }
    if config.replication_ack.is_some() && (!config.log_bin || durability != Durability::Sync) {
        let message = "--replication-ack needs --log-bin and --durability sync";
        return Err(StartError::usage(message));
    }
    let options = KvMemOptions {
        dir,
        disk,
        durability,
        archive_bound: archive_bound(config)?,
        annotations: config.log_bin,
        memory_limit: config
            .memory_limit
            .map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
        ..KvMemOptions::default()
    };
    KvMem::open(options)
        .map_err(|e| StartError::failure(format!("the embedded engine cannot be opened: {e}")))
}

/// Bytes of the log that wait for the archive; `None` without an archive.
fn archive_bound(config: &Config) -> Result<Option<u64>, StartError> {
    if config.archive_to.is_none() {
        return Ok(None);
    }
    if config.durability == DurabilityChoice::Memory {
        let message = "--archive-to: with --durability memory there is no log";
        return Err(StartError::usage(message));
    }
    Ok(Some(config.archive_backlog.unwrap_or(u64::MAX)))
}

/// Connects to a cluster.
///
/// # Errors
/// In one line: it cannot be reached, or belongs to another installation; files of TLS that cannot be read.
#[cfg(feature = "tikv")]
pub fn open_cluster(url: &ClusterUrl) -> Result<Arc<dyn Engine>, StartError> {
    use porpoise_kv_tikv::{KvTikv, KvTikvOptions};
    let usual = KvTikvOptions::default();
    let options = KvTikvOptions {
        endpoints: url.addresses.clone(),
        tenant: url.tenant,
        name: url.name.clone(),
        connect_timeout: url.connect_timeout.unwrap_or(usual.connect_timeout),
        request_timeout: url.request_timeout.unwrap_or(usual.request_timeout),
        retry_timeout: url.retry_timeout.unwrap_or(usual.retry_timeout),
        lock_ttl: url.lock_ttl.unwrap_or(usual.lock_ttl),
        commit_lock_wait: url.lock_wait.unwrap_or(usual.commit_lock_wait),
        retention: url.retention,
        tls: cluster_tls(url)?,
        lease_of_record: Some(porpoise_rows::cluster::ServerState::lease_in),
        ..usual
    };
    let engine = KvTikv::connect(options).map_err(|e| {
        let named = url.addresses.join(",");
        StartError::usage(format!("--engine tikv://{named}: {e}"))
    })?;
    Ok(Arc::new(engine))
}

/// Reads the files of TLS.
#[cfg(feature = "tikv")]
fn cluster_tls(url: &ClusterUrl) -> Result<Option<porpoise_kv_tikv::TlsOptions>, StartError> {
    let read = |option: &str, path: &std::path::Path| {
        std::fs::read(path)
            .map_err(|e| StartError::usage(format!("--engine: {option}={}: {e}", path.display())))
    };
    let Some(ca) = &url.ca else {
        return Ok(None);
    };
    let identity = url.identity.as_ref();
    let identity = identity.map(|(certificate, key)| {
        Ok::<_, StartError>((read("cert", certificate)?, read("key", key)?))
    });
    Ok(Some(porpoise_kv_tikv::TlsOptions {
        authority: read("ca", ca)?,
        identity: identity.transpose()?,
    }))
}

/// Connects to a cluster.
///
/// # Errors
/// Always.
#[cfg(not(feature = "tikv"))]
pub fn open_cluster(_: &ClusterUrl) -> Result<Arc<dyn Engine>, StartError> {
    let message =
        "--engine: this build does not include TiKV; build with the cargo feature \"tikv\"";
    Err(StartError::usage(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::table;

    #[test]
    fn durability_memory_writes_nothing_to_disk() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = table::defaults();
        config.data_dir = dir.path().to_owned();
        config.durability = DurabilityChoice::Memory;
        let engine = open(&config, disk::real()).unwrap();
        assert_eq!(engine.name(), "embedded");
        engine.shutdown().unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[cfg(feature = "tikv")]
    #[test]
    fn a_cluster_rejects_durability_other_than_sync() {
        let mut config = table::defaults();
        config.engine = EngineChoice::Tikv(Box::new(ClusterUrl {
            addresses: vec!["127.0.0.1:1".into()],
            ..ClusterUrl::default()
        }));
        config.durability = DurabilityChoice::Interval;
        let Err(error) = open(&config, disk::real()) else {
            panic!("opened");
        };
        assert!(error.message.starts_with("--durability: "), "{error}");
    }
}
