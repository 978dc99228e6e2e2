//! `porpoise sql`, `porpoise mc` and `porpoise demo`, as processes against a server, also at a terminal
//! (the program `script` makes one).

use crate::support::server;
use porpoise_testkit::{Porpoise, wait_until};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const BINARY: &str = env!("CARGO_BIN_EXE_porpoise");

/// A command of the binary without settings of the surroundings.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PORPOISE_")) {
        command.env_remove(name);
    }
    command.args(arguments);
    command
}

fn run(mut command: Command, input: &str) -> Output {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A shell that stops at an error does not read the rest.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// Output of a shell, errors last, and its exit status.
fn text(output: &Output) -> (String, i32) {
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (said.into_owned(), output.status.code().unwrap())
}

fn sql(server: &Porpoise, arguments: &[&str], input: &str) -> (String, i32) {
    let port = server.mysql_addr.port().to_string();
    text(&run(
        command(&[&["sql", "-P", &port][..], arguments].concat()),
        input,
    ))
}

fn mc(server: &Porpoise, arguments: &[&str], input: &str) -> (String, i32) {
    let port = server.memcached_addr.port().to_string();
    text(&run(
        command(&[&["mc", "-P", &port][..], arguments].concat()),
        input,
    ))
}

/// Types into a shell at a terminal. The session's output, and the exit status.
fn at_terminal(state: &std::path::Path, line: &str, keys: &str) -> (String, i32) {
    let mut command = Command::new("script");
    command
        .args(["-qec", line, "/dev/null"])
        .env("XDG_STATE_HOME", state)
        .env("TERM", "dumb");
    text(&run(command, keys))
}

#[test]
fn scripts_run_to_the_first_error_with_its_line() {
    let server = server().start();
    let script = "create database a;\nuse a\ncreate table t (id int primary key, v text);\n\
                  insert into t values (1, 'x'), (2, null);\nselect * from t;\n\
                  insert into t\n values (1, 'y');\nselect 'unreached';\n";
    let duplicate = "ERROR 1062 (23000) at line 6: Duplicate entry '1' for key 't.PRIMARY'\n";
    let (said, status) = sql(&server, &[], script);
    assert_eq!(
        (said, status),
        (format!("id\tv\n1\tx\n2\tNULL\n{duplicate}"), 1)
    );
    let (said, status) = sql(
        &server,
        &["--force", "a"],
        "insert into t values (1, 'y'); select 'reached'",
    );
    assert_eq!(status, 1, "{said}");
    assert!(
        said.starts_with("reached\nreached\nERROR 1062 (23000) at line 1"),
        "{said}"
    );
    assert_eq!(
        sql(&server, &["-N", "a"], "select count(*) from t"),
        ("2\n".into(), 0)
    );
    let program = "delimiter //\ncreate procedure p() begin select 1 as x; select 2 as y; end//\ndelimiter ;\ncall p();\n";
    assert_eq!(sql(&server, &["a"], program), ("x\n1\ny\n2\n".into(), 0));
    // Files name files.
    let (inner, outer) = (
        server.scratch().join("inner.sql"),
        server.scratch().join("outer.sql"),
    );
    std::fs::write(&inner, "select 'inner';\nselect nosuch;\n").unwrap();
    std::fs::write(
        &outer,
        format!(
            "select 'outer';\nsource {}\nselect 'after';",
            inner.display()
        ),
    )
    .unwrap();
    let (said, status) = sql(
        &server,
        &["-N", "-e", &format!("\\. {}", outer.display())],
        "",
    );
    assert_eq!(status, 1);
    assert_eq!(
        said,
        "outer\ninner\nERROR 1054 (42S22) at line 2: Unknown column 'nosuch' in 'field list'\n"
    );
    assert_eq!(sql(&server, &["-e", "\\. /no/such/file"], "").1, 1);
    assert_eq!(
        sql(
            &server,
            &["-e", "select 1", "-e", "\\q", "-e", "select 2"],
            ""
        ),
        ("1\n1\n".into(), 0)
    );
    assert_eq!(sql(&server, &["--no-such-option"], "").1, 2);
}

#[test]
fn results_have_the_form_that_is_asked_for() {
    let server = server().start();
    let query =
        "select 1 as id, 'Zoë, \"x\"' as name, null as n, cast('{\"a\": 1}' as json) as doc";
    for (format, expected) in [
        (
            "csv",
            "id,name,n,doc\n1,\"Zoë, \"\"x\"\"\",,\"{\"\"a\"\": 1}\"\n",
        ),
        (
            "json",
            "[\n{\"id\": 1, \"name\": \"Zoë, \\\"x\\\"\", \"n\": null, \"doc\": {\"a\": 1}}\n]\n",
        ),
        (
            "markdown",
            "| id | name | n | doc |\n| ---: | --- | --- | --- |\n| 1 | Zoë, \"x\" | NULL | {\"a\": 1} |\n",
        ),
        ("tsv", "id\tname\tn\tdoc\n1\tZoë, \"x\"\tNULL\t{\"a\": 1}\n"),
        (
            "table",
            "+----+----------+------+----------+\n| id | name     | n    | doc      |\n+----+----------+------+----------+\n\
             |  1 | Zoë, \"x\" | NULL | {\"a\": 1} |\n+----+----------+------+----------+\n",
        ),
    ] {
        let (said, status) = sql(&server, &["--format", format, "-e", query], "");
        assert_eq!((said.as_str(), status), (expected, 0), "{format}");
    }
    let (said, _) = sql(&server, &["-e", "select 1 as a, 'x' as bc\\G"], "");
    let stars = "*".repeat(27);
    assert_eq!(said, format!("{stars} 1. row {stars}\n a: 1\nbc: x\n"));
    let (said, _) = sql(
        &server,
        &[
            "--timing",
            "--show-warnings",
            "-e",
            "select 1 where 0; select cast('1x' as signed) v",
        ],
        "",
    );
    assert!(said.starts_with("Empty set (0."), "{said}");
    assert!(said.contains("1 row in set, 1 warning (0."), "{said}");
    assert!(
        said.contains("Warning (Code 1292): Truncated incorrect INTEGER value: '1x'"),
        "{said}"
    );
}

#[test]
fn connections_use_sockets_tls_and_hidden_passwords() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("mysql.sock");
    let server = server()
        .arg("--mysql-socket", &socket)
        .env("PORPOISE_ROOT_PASSWORD", "first secret")
        .start();
    let port = server.mysql_addr.port().to_string();
    let cipher = "show session status like 'Ssl_version'";
    let connect = |password: Option<&str>, arguments: &[&str]| {
        let mut command = command(&[&["sql", "-N", "-e", cipher][..], arguments].concat());
        if let Some(password) = password {
            command.env("PORPOISE_SHELL_PASSWORD", password);
        }
        text(&run(command, ""))
    };
    let secret = Some("first secret");
    assert_eq!(
        connect(secret, &["-P", &port]),
        ("Ssl_version\tTLSv1.3\n".into(), 0)
    );
    assert_eq!(
        connect(secret, &["-P", &port, "--tls", "off"]),
        ("Ssl_version\t\n".into(), 0)
    );
    assert_eq!(
        connect(secret, &["-S", socket.to_str().unwrap()]),
        ("Ssl_version\t\n".into(), 0)
    );
    let (said, status) = connect(Some("wrong"), &["-P", &port]);
    assert_eq!(status, 1);
    assert!(
        said.contains("ERROR 1045 (28000)") && !said.contains("wrong"),
        "{said}"
    );
    // The server's own certificate names this machine, and signs itself.
    let certificate = server.data_dir.join("server-cert.pem");
    let authority = [
        "-P",
        &port,
        "--tls-ca",
        certificate.to_str().unwrap(),
        "--tls",
    ];
    assert_eq!(
        connect(secret, &[&authority[..], &["verify-ca"]].concat()).1,
        0
    );
    let (said, status) = connect(secret, &["-P", &port, "--tls", "verify-identity"]);
    assert_eq!(status, 1, "{said}");
    let file = folder.path().join("password");
    std::fs::write(&file, "first secret\n").unwrap();
    assert_eq!(
        connect(
            None,
            &["-P", &port, "--password-file", file.to_str().unwrap()]
        )
        .1,
        0
    );
    let (said, status) = connect(None, &["-P", "1"]);
    assert_eq!(status, 1);
    assert!(said.contains("cannot connect to 127.0.0.1:1"), "{said}");

    // At a terminal the password is requested, and not shown. What is typed before the prompt is dropped.
    let line = format!("{BINARY} sql -P {port} -p -N --no-history");
    let mut command = Command::new("script");
    command
        .args(["-qec", &line, "/dev/null"])
        .env("TERM", "dumb");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut prompt = [0; "Password: ".len()];
    output.read_exact(&mut prompt).unwrap();
    assert_eq!(&prompt, b"Password: ");
    input
        .write_all(b"first secret\nselect 40 + 2;\n\\q\n")
        .unwrap();
    let mut said = String::new();
    output.read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    assert!(
        said.contains("| 42 |") && !said.contains("first secret"),
        "{said}"
    );
}

#[test]
fn a_terminal_has_prompts_and_a_history_without_passwords() {
    let server = server().start();
    let state = tempfile::tempdir().unwrap();
    let line = format!("{BINARY} sql -P {}", server.mysql_addr.port());
    let keys = "select 'two'\n, 'lines';\ncreate user ada identified by 'a secret';\nuse mysql\nselect nosuch;\n\\?\n\\q\n";
    let (said, status) = at_terminal(state.path(), &line, keys);
    assert_eq!(status, 0, "{said}");
    for part in [
        "Type \\? for help",
        "| two | lines |",
        "1 row in set",
        "porpoise mysql> ",
        "ERROR 1054",
        "\\f FORMAT",
    ] {
        assert!(said.contains(part), "{part} in\n{said}");
    }
    let path = state.path().join("porpoise/sql_history");
    let history = std::fs::read_to_string(&path).unwrap();
    assert!(
        history.contains("two") && history.contains("nosuch"),
        "{history}"
    );
    assert!(!history.contains("secret"), "{history}");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn an_interrupt_ends_the_statement_and_the_script_goes_on_with_force() {
    let server = server().start();
    let port = server.mysql_addr.port().to_string();
    let mut command = command(&["sql", "-P", &port, "-N", "--force"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let script = "select sleep(60) as slept;\nselect 'after';\n";
    child
        .stdin
        .take()
        .unwrap()
        .write_all(script.as_bytes())
        .unwrap();
    let sleeps =
        "select count(*) from information_schema.processlist where info like 'select sleep%'";
    let running = wait_until(Duration::from_secs(30), || {
        (server.sql(sleeps).stdout == "1\n").then_some(())
    });
    assert!(running.is_some(), "the statement does not run");
    let start = Instant::now();
    let signal = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(signal.unwrap().success());
    let (said, _) = text(&child.wait_with_output().unwrap());
    assert!(start.elapsed() < Duration::from_secs(30));
    assert!(said.contains("after"), "{said}");
    assert!(said.contains("1317") || said.starts_with("1\n"), "{said}");
}

#[test]
fn memcached_commands_by_hand_have_values_in_their_lines() {
    let server = server().start();
    assert_eq!(
        mc(&server, &["set", "a", "one\ttwo"], ""),
        ("STORED\n".into(), 0)
    );
    assert_eq!(
        mc(&server, &["get", "a", "b"], ""),
        ("VALUE a 0 7\none\\ttwo\nEND\n".into(), 0)
    );
    assert_eq!(
        mc(&server, &["--raw", "get", "a"], ""),
        ("one\ttwo\n".into(), 0)
    );
    let script = "# numbers\nset n 5\nincr n\nincr n 10\nappend n \"\\x30\"\nget n\nmg n v t\nms m \"a b\" T60\n\
                  gat 60 m\ntouch m 30\ndelete n\ndelete n\nversion\n";
    let (said, status) = mc(&server, &[], script);
    assert_eq!(status, 0, "{said}");
    for line in [
        "STORED",
        "6",
        "16",
        "VALUE n 0 3",
        "160",
        "VA 3 t-1",
        "HD",
        "VALUE m 0 3",
        "a b",
        "TOUCHED",
        "DELETED",
        "NOT_FOUND",
    ] {
        assert!(said.lines().any(|found| found == line), "{line} in\n{said}");
    }
    let (said, status) = mc(&server, &[], "get\nincr a\nget a\n");
    assert_eq!(status, 1);
    assert!(
        said.contains("CLIENT_ERROR")
            && said.contains("get KEY...")
            && said.contains("VALUE a 0 7"),
        "{said}"
    );
    let (said, status) = mc(&server, &["--tls", "required", "stats"], "");
    assert_eq!(status, 0, "{said}");
    assert!(
        said.contains("STAT version ") && said.ends_with("END\n"),
        "{said}"
    );
}

#[test]
fn memcached_clients_authenticate() {
    let server = server().arg("--memcached-account", "off").start();
    server.sql("create user ada identified by 'secret'; grant all on ndbmemcache.* to ada");
    let (said, status) = mc(&server, &["get", "a"], "");
    assert!(status == 1 && said.contains("unauthenticated"), "{said}");
    let port = server.memcached_addr.port().to_string();
    let log_in = |password: &str| {
        let mut command = command(&["mc", "-P", &port, "--user", "ada", "set", "a", "x"]);
        command.env("PORPOISE_SHELL_PASSWORD", password);
        text(&run(command, ""))
    };
    assert_eq!(log_in("secret"), ("STORED\n".into(), 0));
    let (said, status) = log_in("wrong");
    assert!(
        status == 1 && said.contains("authentication failed"),
        "{said}"
    );
}

/// Directories of demonstrations in a directory for temporary files.
fn left_behind(folder: &std::path::Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn the_demonstration_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let demo = |arguments: &[&str]| {
        let mut command = command(&[&["demo"][..], arguments].concat());
        command.env("TMPDIR", folder.path());
        command
    };
    let script = "select count(*) from post; insert into post (topic, author, written, message) values (1, 99, now(), 'x');";
    let (said, status) = text(&run(demo(&["--with-load"]), script));
    assert_eq!(status, 1, "{said}");
    assert!(
        said.contains("Try:") && said.contains("\ncount(*)\n60"),
        "{said}"
    );
    assert!(
        said.contains("ERROR 1452 (23000) at line 1: Cannot add or update a child row"),
        "{said}"
    );
    assert_eq!(left_behind(folder.path()), 0);

    // The printed commands work, and SIGTERM ends everything, too.
    let mut command = demo(&[]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let port = memcached_port(&mut child);
    let (said, status) = text(&run(
        self::command(&["mc", "-P", &port, "get", "user:1"]),
        "",
    ));
    assert_eq!(
        (said.as_str(), status),
        ("VALUE user:1 0 21\nAda\\tLondon\\t2024-01-10\nEND\n", 0)
    );
    let alan = [
        "mc",
        "-P",
        &port,
        "set",
        "user:7",
        "Alan\tManchester\t2025-06-23",
    ];
    assert_eq!(text(&run(self::command(&alan), "")), ("STORED\n".into(), 0));
    let signal = Command::new("kill").arg(child.id().to_string()).status();
    assert!(signal.unwrap().success());
    assert!(!child.wait().unwrap().success());
    assert_eq!(left_behind(folder.path()), 0);
    assert_eq!(self::mc_fails(&port), 1);
    // The shell has ended, too: nothing reads its input.
    let closed = wait_until(Duration::from_secs(10), || {
        input.write_all(b"select 1;\n").is_err().then_some(())
    });
    assert!(closed.is_some());
}

fn mc_fails(port: &str) -> i32 {
    text(&run(command(&["mc", "-P", port, "version"]), "")).1
}

/// The port in the introduction's `mc -P PORT get`.
fn memcached_port(child: &mut std::process::Child) -> String {
    use std::io::{BufRead, BufReader};
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for line in lines.map_while(Result::ok) {
        if let Some((_, rest)) = line.split_once(" mc -P ") {
            return rest.split_whitespace().next().unwrap().to_owned();
        }
    }
    panic!("no introduction");
}

#[test]
fn the_server_says_where_it_is_and_what_is_not_safe() {
    let mut command = command(&["serve", "--durability", "memory", "--http-listen", "off"]);
    let folder = tempfile::tempdir().unwrap();
    command.args([
        "--mysql-listen",
        "127.0.0.1:0",
        "--memcached-listen",
        "127.0.0.1:0",
        "--data-dir",
    ]);
    command
        .arg(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut screen = String::new();
    {
        use std::io::{BufRead, BufReader};
        for line in BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok)
        {
            screen.push_str(&line);
            screen.push('\n');
            if line == "porpoise ready" {
                break;
            }
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    for part in [
        "porpoise sql -P ",
        "porpoise mc -P ",
        "durability memory",
        "root has no password",
        "all rows are lost",
    ] {
        assert!(screen.contains(part), "{part} in\n{screen}");
    }
    assert!(
        screen.contains(&folder.path().display().to_string()),
        "{screen}"
    );
}
