//! Options of both shells, and of other clients of MySQL's protocol: TLS, passwords.

use crate::{Failure, terminal};
use clap::{Args, ValueEnum};
use porpoise_client::{TlsMode, TlsOptions};
use std::path::PathBuf;

/// Words of `--tls`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum TlsWord {
    /// Never
    #[value(alias = "disabled")]
    Off,
    /// If the server offers it
    Preferred,
    /// Always, with any certificate
    Required,
    /// Always, signed by an authority of --tls-ca
    #[value(alias = "verify_ca")]
    VerifyCa,
    /// As verify-ca, and the certificate names the host
    #[value(alias = "verify_identity")]
    VerifyIdentity,
}

/// TLS options.
#[derive(Args, Clone, Debug)]
pub struct TlsArgs {
    /// Use of TLS
    #[arg(
        long,
        alias = "ssl-mode",
        value_enum,
        ignore_case = true,
        default_value = "preferred",
        value_name = "MODE",
        env = "PORPOISE_SHELL_TLS"
    )]
    tls: TlsWord,
    /// Certificates of authorities (PEM)
    #[arg(
        long,
        alias = "ssl-ca",
        value_name = "FILE",
        env = "PORPOISE_SHELL_TLS_CA"
    )]
    tls_ca: Option<PathBuf>,
    /// The client's certificate (PEM)
    #[arg(long, alias = "ssl-cert", value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The client's key (PEM)
    #[arg(long, alias = "ssl-key", value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl TlsArgs {
    /// The options as the client reads them.
    pub fn options(&self) -> TlsOptions {
        TlsOptions {
            mode: match self.tls {
                TlsWord::Off => TlsMode::Disabled,
                TlsWord::Preferred => TlsMode::Preferred,
                TlsWord::Required => TlsMode::Required,
                TlsWord::VerifyCa => TlsMode::VerifyCa,
                TlsWord::VerifyIdentity => TlsMode::VerifyIdentity,
            },
            authorities: self.tls_ca.clone(),
            identity: self.tls_cert.clone().zip(self.tls_key.clone()),
        }
    }
}

/// Source of a password.
#[derive(Args, Clone, Debug)]
pub struct PasswordArgs {
    /// Ask for the password (default: the variable PORPOISE_SHELL_PASSWORD)
    #[arg(short = 'p', long)]
    password: bool,
    /// Read the password from the first line of a file
    #[arg(long, value_name = "FILE", conflicts_with = "password")]
    password_file: Option<PathBuf>,
}

impl PasswordArgs {
    /// The password, if one was given: from the prompt, a file or the environment, in this order.
    pub fn read(&self) -> Result<Option<String>, Failure> {
        if self.password {
            return terminal::read_password("Password: ").map(Some);
        }
        if let Some(path) = &self.password_file {
            let text = std::fs::read_to_string(path)
                .map_err(|error| Failure::Input(format!("{}: {error}", path.display())))?;
            return Ok(Some(text.lines().next().unwrap_or_default().to_owned()));
        }
        Ok(std::env::var("PORPOISE_SHELL_PASSWORD").ok())
    }
}
