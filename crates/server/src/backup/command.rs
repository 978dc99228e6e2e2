//! The commands `porpoise backup` and `porpoise restore`.

use super::progress::Bar;
use super::restore::{Restored, Restoring, Until};
use crate::config::StartError;
use crate::target::{self, ServerOption};
use clap::{Args, Subcommand};
use porpoise_backup::log::PIECE_BYTES;
use porpoise_backup::prune::{Keep, merge, prune};
use porpoise_backup::{Backup, Key, Location, Repository, verify};
use porpoise_client::TlsOptions;
use porpoise_client::mysql::{Connection, Target};
use porpoise_types::DateTime;
use porpoise_types::temporal::DateRules;
use porpoise_wire::mysql::client::result::{Event, Row};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

/// The option that names the server.
const FROM: ServerOption = ServerOption {
    name: "--from",
    program: "porpoise backup",
};

/// Interval at which the state of a running backup is polled.
const POLL: Duration = Duration::from_millis(500);

/// Minimum age of unfinished files of interrupted writes that `porpoise backup prune` removes.
const UNFINISHED_AGE: Duration = Duration::from_secs(24 * 3600);

/// `porpoise backup`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct BackupOptions {
    #[command(subcommand)]
    command: Option<BackupCommand>,
    /// Server: HOST:PORT, or mysql://USER:PASSWORD@HOST:PORT
    #[arg(long, value_name = "SERVER", required = true)]
    from: Option<String>,
    /// Directory on the server's machine, or s3://BUCKET/PREFIX; below the server's --backup-to
    #[arg(long, value_name = "PLACE", required = true)]
    to: Option<String>,
    /// Most MB to read in a second [default: 16]
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u64).range(1..))]
    rate: Option<u64>,
    /// Report no progress
    #[arg(long)]
    quiet: bool,
}

/// Subcommands of `porpoise backup`.
#[derive(Clone, Debug, Subcommand)]
enum BackupCommand {
    /// Reads every object of every backup and of the log; exit status 1 if something is damaged
    Verify(PlaceOptions),
    /// Lists the backups
    List(PlaceOptions),
    /// Removes old backups, and the log that only they need
    Prune(PruneOptions),
    /// Merges small pieces of the archived log into larger ones
    Merge(PlaceOptions),
}

#[derive(Args, Clone, Debug)]
#[command(group(clap::ArgGroup::new("rule").required(true).multiple(true).args(["keep", "keep_days"])))]
struct PruneOptions {
    #[command(flatten)]
    place: PlaceOptions,
    /// Keep this many of the newest backups
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// Keep the backups of the last days
    #[arg(long, value_name = "DAYS")]
    keep_days: Option<u32>,
    /// Place of the archived log, if it is not with the backups; its old part is removed, too
    #[arg(long, value_name = "PLACE")]
    archive: Option<String>,
    /// Only print what would be removed
    #[arg(long)]
    dry_run: bool,
}

#[derive(Args, Clone, Debug)]
struct PlaceOptions {
    /// Directory, or s3://BUCKET/PREFIX
    #[arg(value_name = "PLACE")]
    place: String,
    /// File with the key of an encrypted backup; default: the variable PORPOISE_BACKUP_KEY
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Report no progress
    #[arg(long)]
    quiet: bool,
}

/// `porpoise restore`.
#[derive(Args, Clone, Debug)]
pub struct RestoreOptions {
    /// Directory of backups, or s3://BUCKET/PREFIX
    #[arg(long, value_name = "PLACE")]
    from: String,
    /// New data directory
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Place of the archived log, if it is not with the backups
    #[arg(long, value_name = "PLACE")]
    archive: Option<String>,
    /// Restore all commits up to this time in UTC, like "2026-01-31 12:00:00.5"
    #[arg(long, value_name = "TIME", conflicts_with = "until_position")]
    until: Option<String>,
    /// Restore all commits up to this position in the log
    #[arg(long, value_name = "POSITION")]
    until_position: Option<u64>,
    /// Number of the backup, whose own state is restored unless --until or --until-position is given
    #[arg(long, value_name = "NUMBER")]
    backup: Option<u64>,
    /// File with the key of an encrypted backup; default: the variable PORPOISE_BACKUP_KEY
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Report no progress
    #[arg(long)]
    quiet: bool,
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Prints a line. Standard output may be closed.
fn print(line: &str) {
    let _ = writeln!(io::stdout().lock(), "{line}");
}

fn open(place: &str, key_file: Option<&PathBuf>) -> Result<Repository, StartError> {
    let key = Key::find(key_file.map(PathBuf::as_path), &variable)?;
    Ok(Repository::open(Location::parse(place)?, key)?)
}

/// A time in UTC for people.
fn time_text(micros: u64) -> String {
    let time = i64::try_from(micros).ok();
    let time = time.and_then(DateTime::from_unix_micros);
    time.map_or_else(|| "-".to_owned(), |time| format!("{time} UTC"))
}

/// Runs `porpoise backup`.
///
/// # Errors
/// One line.
pub fn run_backup(options: &BackupOptions) -> Result<(), StartError> {
    match &options.command {
        Some(BackupCommand::List(place)) => list(place),
        Some(BackupCommand::Verify(place)) => verify_place(place),
        Some(BackupCommand::Prune(options)) => prune_place(options),
        Some(BackupCommand::Merge(place)) => merge_place(place),
        None => make_backup(options),
    }
}

fn list(options: &PlaceOptions) -> Result<(), StartError> {
    let repository = open(&options.place, options.key_file.as_ref())?;
    print("backup  position        size MB  stored MB  files  last commit");
    let mut end = 0;
    for number in repository.numbers()? {
        let backup = repository.backup(number)?;
        end = repository.covered(backup.log_from)?.max(end);
        print(&line_of(&backup));
    }
    if end > 0 {
        print(&format!("archived log: up to position {end}"));
    }
    Ok(())
}

fn line_of(backup: &Backup) -> String {
    let mb = |bytes: u64| bytes as f64 / 1e6;
    format!(
        "{:<6}  {:<14}  {:<7.1}  {:<9.1}  {:<5}  {}",
        backup.number,
        backup.position,
        mb(backup.bytes()),
        mb(backup.stored),
        backup.files.len(),
        time_text(backup.time)
    )
}

fn verify_place(options: &PlaceOptions) -> Result<(), StartError> {
    let repository = open(&options.place, options.key_file.as_ref())?;
    let mut bar = Bar::new("verify", options.quiet);
    let mut done = 0;
    let verdicts = verify(&repository, &mut |bytes| {
        done += bytes;
        bar.show(done, done);
    })?;
    bar.end();
    let mut damaged = 0;
    for verdict in &verdicts {
        for problem in &verdict.problems {
            print(&format!("backup {}: {problem}", verdict.number));
        }
        if verdict.problems.is_empty() {
            print(&format!("backup {}: no problems", verdict.number));
        } else {
            damaged += 1;
        }
    }
    match damaged {
        0 if verdicts.is_empty() => Err(StartError::failure("there is no complete backup")),
        0 => Ok(()),
        n => Err(StartError::failure(format!(
            "{n} of {} backups are damaged",
            verdicts.len()
        ))),
    }
}

fn prune_place(options: &PruneOptions) -> Result<(), StartError> {
    let key = options.place.key_file.as_ref();
    let repository = open(&options.place.place, key)?;
    let archive = options.archive.as_deref();
    let archive = archive.map(|place| open(place, key)).transpose()?;
    let now = porpoise_base::clock::system().unix_micros();
    let days = |days: u32| now.saturating_sub(i64::from(days).saturating_mul(86_400_000_000));
    let keep = Keep {
        last: options.keep.map(|n| n as usize),
        since: options.keep_days.map(days),
    };
    let done = prune(&repository, archive.as_ref(), keep, options.dry_run)?;
    if !options.dry_run {
        let now = Duration::from_micros(u64::try_from(now).unwrap_or(0));
        let before = UNIX_EPOCH + now.saturating_sub(UNFINISHED_AGE);
        for repository in [Some(&repository), archive.as_ref()].into_iter().flatten() {
            repository.remove_unfinished(before)?;
        }
    }
    let verb = if options.dry_run {
        "would be removed"
    } else {
        "removed"
    };
    for number in &done.removed {
        print(&format!("backup {number}: {verb}"));
    }
    print(&format!(
        "{} backups kept; {} backups, {} files, {} pieces of the log {verb}; the log is kept from position {}",
        done.kept.len(),
        done.removed.len(),
        done.parts,
        done.pieces,
        done.log_from
    ));
    Ok(())
}

fn merge_place(options: &PlaceOptions) -> Result<(), StartError> {
    let repository = open(&options.place, options.key_file.as_ref())?;
    let (before, after) = merge(&repository, PIECE_BYTES)?;
    print(&format!("{before} pieces of the log are {after} now"));
    Ok(())
}

/// Runs BACKUP DATABASE in a server, and shows its progress.
fn make_backup(options: &BackupOptions) -> Result<(), StartError> {
    let from = options.from.as_deref().unwrap_or_default();
    let place = options.to.as_deref().unwrap_or_default();
    let password = variable("PORPOISE_PASSWORD");
    let target = target::parse(FROM, from, password, TlsOptions::default())?;
    let connect = || connect(&target);
    let mut main = connect()?;
    let quoted = place.replace('\\', "\\\\").replace('\'', "''");
    let rate = options
        .rate
        .map(|mb| format!(" RATE_LIMIT = {mb} MB/SECOND"));
    let statement = format!("BACKUP DATABASE TO '{quoted}'{}", rate.unwrap_or_default());
    let ended = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        if !options.quiet {
            scope.spawn(|| {
                // A backup is made without progress if there is no second connection.
                if let Ok(second) = connect() {
                    show_progress(second, &ended);
                }
            });
        }
        let outcome = rows(&mut main, &statement);
        ended.store(true, Ordering::Relaxed);
        outcome
    });
    let rows = outcome?;
    let row = rows.first().map(Vec::as_slice).unwrap_or_default();
    let cell = |n: usize| row.get(n).map_or("", String::as_str);
    let mb = |n: usize| cell(n).parse::<f64>().unwrap_or(0.0) / 1e6;
    print(&format!(
        "backup {} at position {}: {:.1} MB, {:.1} MB stored, last commit {} UTC",
        cell(1),
        cell(4),
        mb(2),
        mb(3),
        cell(5)
    ));
    Ok(())
}

fn connect(target: &Target) -> Result<Connection, StartError> {
    Connection::connect(target).map_err(|e| StartError::failure(format!("backup: {e}")))
}

/// Runs a statement and returns its rows; NULL is empty.
fn rows(connection: &mut Connection, statement: &str) -> Result<Vec<Vec<String>>, StartError> {
    let (mut rows, mut refused) = (Vec::new(), None);
    let run = connection.query(statement.as_bytes(), |event| {
        match event {
            Event::Error(error) => refused = Some(error),
            Event::Row(Row::Text(row)) => {
                let text = |cell: Option<&[u8]>| {
                    String::from_utf8_lossy(cell.unwrap_or_default()).into_owned()
                };
                rows.push(row.map(text).collect());
            }
            _ => {}
        }
        Ok::<(), porpoise_client::Error>(())
    });
    run.map_err(|e| StartError::failure(format!("backup: {e}")))?;
    match refused {
        None => Ok(rows),
        Some(error) => Err(StartError::failure(format!(
            "backup: {} {}",
            error.code, error.message
        ))),
    }
}

fn show_progress(mut connection: Connection, ended: &AtomicBool) {
    let mut bar = Bar::new("backup", false);
    while !ended.load(Ordering::Relaxed) {
        std::thread::sleep(POLL);
        let Ok(found) = rows(&mut connection, "SHOW GLOBAL STATUS LIKE 'Backup_bytes_%'") else {
            break;
        };
        let number = |name: &str| {
            let row = found
                .iter()
                .find(|row| row.first().is_some_and(|n| n == name));
            row.and_then(|row| row.get(1)?.parse().ok()).unwrap_or(0)
        };
        let total: u64 = number("Backup_bytes_total");
        if total > 0 {
            bar.show(number("Backup_bytes_done"), total);
        }
    }
    bar.end();
}

/// Runs `porpoise restore`.
///
/// # Errors
/// One line.
pub fn run_restore(options: &RestoreOptions) -> Result<(), StartError> {
    let until = match (&options.until, options.until_position) {
        (Some(text), _) => Until::Time(parse_time(text)?),
        (None, Some(position)) => Until::Position(position),
        (None, None) if options.backup.is_some() => Until::Backup,
        (None, None) => Until::End,
    };
    let backups = open(&options.from, options.key_file.as_ref())?;
    let archive = options.archive.as_deref();
    let archive = archive.map(|place| open(place, options.key_file.as_ref()));
    let archive = archive.transpose()?;
    let restoring = Restoring {
        backups: &backups,
        archive: archive.as_ref(),
        number: options.backup,
        until,
        data_dir: &options.data_dir,
        quiet: options.quiet,
    };
    let Restored {
        number,
        position,
        time,
        has_gap,
        executed,
    } = restoring.run()?;
    if has_gap {
        eprintln!(
            "porpoise: the archived log has a gap at position {position}: what is behind it was not restored"
        );
    }
    print(&format!(
        "restored backup {number} and the log up to position {position}, last commit {} to {}",
        time_text(time),
        options.data_dir.display()
    ));
    if let Some(executed) = executed {
        print(&format!(
            "its binary log (--log-bin) begins after the transactions {executed}"
        ));
    }
    Ok(())
}

/// Parses a time in UTC, or with an offset.
fn parse_time(text: &str) -> Result<u64, StartError> {
    let wrong = || {
        StartError::usage(format!(
            "--until: {text:?} is not a time like \"2026-01-31 12:00:00.5\""
        ))
    };
    let plain = text.strip_suffix('Z').unwrap_or(text);
    let parsed = DateTime::parse(plain.as_bytes(), DateRules::LENIENT).ok_or_else(wrong)?;
    if parsed.truncated || parsed.date_only || parsed.offset.is_some() {
        return Err(wrong());
    }
    u64::try_from(parsed.value.to_unix_micros()).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_utc() {
        assert_eq!(parse_time("1970-01-01 00:00:01.5").unwrap(), 1_500_000);
        assert_eq!(parse_time("1970-01-02T00:00:00Z").unwrap(), 86_400_000_000);
        for bad in [
            "",
            "yesterday",
            "2026-01-01",
            "2026-13-01 00:00:00",
            "2026-01-01 00:00:00 x",
        ] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
        assert_eq!(time_text(1_500_000), "1970-01-01 00:00:01.500000 UTC");
    }
}
