//! The way to a URLFrontier server, ours or another.

use std::time::Duration;

use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status};

use crate::api::url_frontier_client::UrlFrontierClient;
use crate::error::FrontierError;
use crate::server::told_whole;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(10);

/// Where a server is, and what it wants.
#[derive(Clone, Debug, Default)]
pub struct ServerAddress {
    /// `http://HOST:PORT` or `https://HOST:PORT`.
    pub url: String,
    /// Who signed the server's certificate, as PEM.
    pub ca: Option<Vec<u8>>,
    /// The token that it wants.
    pub token: Option<String>,
    /// Speak plain text with another machine, too.
    pub insecure: bool,
}

/// Calls to a server.
pub type Client = UrlFrontierClient<InterceptedService<Channel, Bearer>>;

/// Brings the token with each call.
#[derive(Clone)]
pub struct Bearer(Option<MetadataValue<Ascii>>);

impl tonic::service::Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request
                .metadata_mut()
                .insert("authorization", token.clone());
        }
        Ok(request)
    }
}

impl ServerAddress {
    /// A way to the server, which connects with its first call and again whenever the connection is lost.
    ///
    /// # Errors
    ///
    /// What is wrong with the address, in a sentence for the person who wrote it.
    pub fn client(&self) -> Result<Client, FrontierError> {
        let wrong = |what: &str| FrontierError::Input(format!("{}: {what}", self.url));
        let endpoint = Endpoint::from_shared(self.url.clone())
            .map_err(|_| wrong("write the server as http://HOST:PORT or https://HOST:PORT"))?;
        let scheme = endpoint.uri().scheme_str().unwrap_or_default().to_owned();
        let host = endpoint.uri().host().unwrap_or_default().to_owned();
        let mut endpoint = endpoint
            .connect_timeout(CONNECT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(Duration::from_secs(30));
        match scheme.as_str() {
            "https" => {
                let mut tls = ClientTlsConfig::new().domain_name(host.trim_matches(['[', ']']));
                let Some(ca) = &self.ca else {
                    return Err(wrong(
                        "give the certificate of who signed the server's, as a PEM file",
                    ));
                };
                tls = tls.ca_certificate(Certificate::from_pem(ca));
                endpoint = endpoint
                    .tls_config(tls)
                    .map_err(|e| wrong(&told_whole(&e)))?;
            }
            "http" if self.insecure || is_loopback(&host) => {}
            "http" => {
                return Err(wrong(
                    "URLs would go to another machine as plain text; write https://, or allow it if the network is to be trusted",
                ));
            }
            _ => {
                return Err(wrong(
                    "write the server as http://HOST:PORT or https://HOST:PORT",
                ));
            }
        }
        let token = self.token.as_ref().map(|token| {
            let value = MetadataValue::try_from(format!("Bearer {token}"));
            value.map_err(|_| wrong("the token has signs that no token may have"))
        });
        let bearer = Bearer(token.transpose()?);
        Ok(UrlFrontierClient::with_interceptor(
            endpoint.connect_lazy(),
            bearer,
        ))
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}
