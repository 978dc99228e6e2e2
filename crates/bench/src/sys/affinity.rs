//! Processors on which processes run.

use std::io::{Error, Result};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

/// One more than the greatest processor number that can be named.
const LIMIT: usize = 1024;

/// Number of processors that this process could use at its start, before it was pinned.
pub fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// A set of processors by number, ascending, not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processors(Vec<usize>);

impl Processors {
    /// Parses `0`, `0-3`, `0+2`, `0-1+4-5`; `None` if the text is none of these.
    pub fn parse(text: &str) -> Option<Processors> {
        let mut found = Vec::new();
        for part in text.split('+') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || last >= LIMIT {
                return None;
            }
            found.extend(first..=last);
        }
        found.sort_unstable();
        found.dedup();
        Some(Processors(found))
    }

    /// Those that the calling thread may use.
    ///
    /// # Errors
    /// The kernel's.
    pub fn allowed() -> Result<Processors> {
        let mut set = empty();
        // SAFETY: the kernel writes at most the size of the set, which is there.
        let done = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
        if done != 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: `LIMIT` is the number of bits of the set.
        let has = |n: &usize| unsafe { libc::CPU_ISSET(*n, &set) };
        Ok(Processors((0..LIMIT).filter(has).collect()))
    }

    /// The first of these that is not among the others.
    pub fn missing_from(&self, others: &Processors) -> Option<usize> {
        self.0.iter().copied().find(|n| !others.0.contains(n))
    }

    /// Number of processors.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Text for reports: `0+2`.
    pub fn words(&self) -> String {
        let numbers: Vec<String> = self.0.iter().map(usize::to_string).collect();
        numbers.join("+")
    }

    fn set(&self) -> libc::cpu_set_t {
        let mut set = empty();
        for n in &self.0 {
            // SAFETY: numbers are below `LIMIT`, the number of bits of the set.
            unsafe { libc::CPU_SET(*n, &mut set) };
        }
        set
    }

    /// Lets the calling thread, and the threads and processes that it starts later, run on these only.
    ///
    /// # Errors
    /// The kernel's.
    pub fn pin_this_thread(&self) -> Result<()> {
        pin(&self.set())
    }

    /// Lets the command's process, with all its threads, run on these only.
    pub fn pin_command(&self, command: &mut Command) {
        let set = self.set();
        // SAFETY: between fork and exec one system call is made, which is safe there; nothing is
        // allocated and no lock is taken.
        unsafe {
            command.pre_exec(move || pin(&set));
        }
    }
}

fn empty() -> libc::cpu_set_t {
    // SAFETY: a set of bits, for which zero is a valid value.
    unsafe { std::mem::zeroed() }
}

fn pin(set: &libc::cpu_set_t) -> Result<()> {
    // SAFETY: the kernel reads the set, which lives across the call.
    let done = unsafe { libc::sched_setaffinity(0, size_of_val(set), std::ptr::from_ref(set)) };
    if done == 0 {
        return Ok(());
    }
    Err(Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_parsed() {
        for (text, words) in [("0", "0"), ("0-2", "0+1+2"), ("4+0-1+1", "0+1+4")] {
            assert_eq!(Processors::parse(text).unwrap().words(), words);
        }
        for text in ["", "x", "2-1", "0+", "1024", "-1"] {
            assert_eq!(Processors::parse(text), None, "{text}");
        }
        let few = Processors::parse("0-1").unwrap();
        assert_eq!(
            Processors::parse("1-3").unwrap().missing_from(&few),
            Some(2)
        );
        assert_eq!(few.missing_from(&Processors::parse("0-3").unwrap()), None);
    }

    #[test]
    fn a_pinned_command_runs_where_it_is_told() {
        let allowed = Processors::allowed().unwrap();
        let one = Processors(vec![*allowed.0.last().unwrap()]);
        let mut command = Command::new("grep");
        command.args(["Cpus_allowed_list", "/proc/self/status"]);
        one.pin_command(&mut command);
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.split_whitespace().last().unwrap(), one.words());
        assert_eq!(
            Processors::allowed().unwrap(),
            allowed,
            "this thread is not pinned"
        );
    }

    #[test]
    fn threads_inherit_the_processors() {
        std::thread::spawn(|| {
            let one = Processors(vec![Processors::allowed().unwrap().0[0]]);
            one.pin_this_thread().unwrap();
            let of_child = std::thread::spawn(Processors::allowed).join().unwrap();
            assert_eq!(of_child.unwrap(), one);
        })
        .join()
        .unwrap();
    }
}
