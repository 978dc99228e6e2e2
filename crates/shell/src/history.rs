//! History of a shell: lines that the editor offers again, in a file that only its owner may read.

use rustyline::history::DefaultHistory;
use rustyline::{Editor, Helper};
use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

/// Path of a shell's history: `$XDG_STATE_HOME/porpoise/NAME`, or below `~/.local/state`.
pub fn path(name: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let state = variable("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| Some(PathBuf::from(variable("HOME")?).join(".local/state")))?;
    Some(state.join("porpoise").join(name))
}

/// Creates the file if it is missing. Returns whether it can be used.
fn create(path: &PathBuf) -> bool {
    if let Some(folder) = path.parent()
        && DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .is_err()
    {
        return false;
    }
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .is_ok()
}

/// The history of an editor in its file, if there is one.
pub struct History(Option<PathBuf>);

impl History {
    /// Reads the file into the editor. A history that cannot be kept is not an error.
    pub fn load<H: Helper>(
        editor: &mut Editor<H, DefaultHistory>,
        path: Option<PathBuf>,
    ) -> History {
        let path = path.filter(create);
        if let Some(path) = &path {
            // A damaged file is overwritten by and by.
            let _ = editor.load_history(path);
        }
        History(path)
    }

    /// Adds an entry, unless it may contain a password.
    pub fn add<H: Helper>(&self, editor: &mut Editor<H, DefaultHistory>, entry: &str) {
        let entry = entry.trim();
        if entry.is_empty() || may_hold_password(entry) {
            return;
        }
        if matches!(editor.add_history_entry(entry), Ok(true))
            && let Some(path) = &self.0
        {
            let _ = editor.append_history(path);
        }
    }
}

/// Words before passwords in statements and commands.
const BEFORE_PASSWORDS: &[&str] = &["identified", "password", "auth"];

fn may_hold_password(entry: &str) -> bool {
    let lower = entry.to_ascii_lowercase();
    BEFORE_PASSWORDS.iter().any(|word| lower.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_file_is_in_the_state_directory_of_its_owner() {
        let both = |name: &str| Some(format!("/{}", name.to_lowercase()));
        let file = "/xdg_state_home/porpoise/sql_history";
        assert_eq!(path("sql_history", &both), Some(file.into()));
        let home = |name: &str| (name == "HOME").then(|| "/users/ada".to_owned());
        let file = "/users/ada/.local/state/porpoise/sql_history";
        assert_eq!(path("sql_history", &home), Some(file.into()));
        assert_eq!(path("sql_history", &|_| None), None);
    }

    #[test]
    fn entries_are_kept_for_their_owner_only_and_passwords_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/porpoise/sql_history");
        let mut editor = Editor::<(), DefaultHistory>::new().unwrap();
        let history = History::load(&mut editor, Some(path.clone()));
        for entry in [
            "SELECT 1",
            "CREATE USER ada IDENTIFIED BY 'first secret'",
            "set password = 'second secret'",
            "auth ada third secret",
            "  ",
        ] {
            history.add(&mut editor, entry);
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("SELECT 1"), "{text}");
        assert!(!text.contains("secret"), "{text}");
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);

        let mut again = Editor::<(), DefaultHistory>::new().unwrap();
        History::load(&mut again, Some(path));
        assert_eq!(again.history().iter().collect::<Vec<_>>(), ["SELECT 1"]);
    }
}
