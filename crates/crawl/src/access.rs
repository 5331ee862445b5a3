//! How each host is asked: which fields go along, as whom, how often and for how many pages. Compiled from
//! `[access]` and the `[[host]]` blocks once, and looked up once a turn.
//!
//! A secret (a password, a token, a Cookie field) goes only to the hosts that its block matches, and there only to
//! the schemes and ports that the block's `send_to` names.

mod cookies;

pub(crate) use cookies::Cookies;

use std::borrow::Cow;
use std::sync::Arc;

use portolan_model::Clock;
use portolan_model::url::host_of_key;
use portolan_net::{Field, Origin, basic_credentials};

use crate::error::CrawlError;
use crate::scope::Sites;
use crate::settings::{Entrance, HostSettings, Settings, is_secret, product_of, split_field};

/// What holds for one host.
#[derive(Debug, Clone)]
pub(crate) struct HostAccess {
    pub(crate) delay_ms: u64,
    /// At most this many documents; 0: no limit.
    pub(crate) max_pages: u64,
    /// At most this many bytes a second; 0: no limit.
    pub(crate) bytes_per_s: u64,
    /// Instead of the crawl's own User-Agent.
    pub(crate) user_agent: Option<String>,
    /// Whose group of robots.txt is ours.
    pub(crate) product: String,
    /// Set-Cookie is obeyed.
    pub(crate) keeps_cookies: bool,
    /// Sent with every request to the host.
    fields: Vec<Field>,
    /// Sent to some of its entrances only; of those with one name the first that may be sent.
    secrets: Vec<Secret>,
}

#[derive(Debug, Clone)]
struct Secret {
    field: Field,
    entrances: Arc<[Entrance]>,
}

/// Every host's.
#[derive(Debug)]
pub(crate) struct Access {
    /// For hosts that no block matches.
    common: Arc<HostAccess>,
    blocks: Vec<Block>,
    /// `None` where nobody wants any.
    pub(crate) cookies: Option<Cookies>,
    withholds_cookies: bool,
}

#[derive(Debug)]
struct Block {
    /// `None`: every host.
    hosts: Option<Sites>,
    settings: HostSettings,
    fields: Vec<Field>,
    secrets: Vec<Secret>,
}

impl Access {
    /// Reads secrets from where the settings say; an error names the block.
    pub(crate) fn new(settings: &Settings, wall_ms: u64) -> Result<Self, CrawlError> {
        let fields = settings.access.headers.iter();
        let common = HostAccess {
            delay_ms: settings.politeness.delay_ms,
            max_pages: settings.limits.max_pages_per_host,
            bytes_per_s: settings.limits.bytes_per_s_per_host,
            user_agent: None,
            product: settings.identity.product.clone(),
            keeps_cookies: settings.access.keep_cookies,
            fields: fields.filter_map(|text| field(settings, text)).collect(),
            secrets: Vec::new(),
        };
        let blocks = settings.host.iter();
        Ok(Self {
            common: Arc::new(common),
            blocks: blocks
                .map(|block| Block::new(settings, block))
                .collect::<Result<_, _>>()?,
            cookies: Cookies::new(settings, wall_ms)?,
            withholds_cookies: settings.is_withheld("Cookie"),
        })
    }

    /// What goes along with a request to `host`, cookies included.
    pub(crate) fn fields<'a>(
        &self,
        host: &'a HostAccess,
        origin: &Origin,
        path: &str,
        clock: &dyn Clock,
    ) -> Cow<'a, [Field]> {
        let mut fields = host.fields(origin);
        let cookies = self.cookies.as_ref();
        if let Some(mut value) = cookies.and_then(|c| c.sent_to(origin, path, clock.wall_ms())) {
            let all = fields.to_mut();
            if let Some(at) = all
                .iter()
                .position(|f| f.name.eq_ignore_ascii_case("cookie"))
            {
                value = format!("{}; {value}", all.remove(at).value);
            }
            all.push(Field {
                name: "Cookie".to_owned(),
                value,
                withheld: self.withholds_cookies,
            });
        }
        fields
    }

    /// `host` is a host's name, or a politeness key that holds one.
    pub(crate) fn of(&self, host: &str) -> Arc<HostAccess> {
        let host = host_of_key(host);
        let mut found: Option<HostAccess> = None;
        // From the last to the first, so that the first has the last word.
        for block in self.blocks.iter().rev().filter(|b| b.matches(host)) {
            block.rule(found.get_or_insert_with(|| HostAccess::clone(&self.common)));
        }
        found.map_or_else(|| Arc::clone(&self.common), Arc::new)
    }
}

impl Block {
    fn new(settings: &Settings, block: &HostSettings) -> Result<Self, CrawlError> {
        let pattern = &block.pattern;
        let wrong = |name: &str, what: String| {
            CrawlError::Input(format!("[[host]] match = \"{pattern}\": {name}: {what}"))
        };
        let mut authorization = Vec::new();
        if let Some(auth) = &block.auth {
            let auth = auth.read().map_err(|e| wrong("auth", e))?;
            if !auth.contains(':') {
                return Err(wrong("auth", "it must be 'user:password'".to_owned()));
            }
            authorization.push(basic_credentials(&auth));
        }
        if let Some(bearer) = &block.bearer {
            let token = bearer.read().map_err(|e| wrong("bearer", e))?;
            authorization.push(format!("Bearer {token}"));
        }
        let authorization = authorization
            .iter()
            .filter_map(|value| field(settings, &format!("Authorization: {value}")));
        let others = block.headers.iter();
        let others = others.filter_map(|text| field(settings, text));
        let (secrets, fields): (Vec<Field>, _) = authorization
            .chain(others)
            .partition(|field| field.withheld || is_secret(&field.name));
        let entrances: Arc<[Entrance]> = match block.send_to.is_empty() {
            true => Arc::new([Entrance::HTTPS]),
            false => block
                .send_to
                .iter()
                .filter_map(|t| Entrance::parse(t))
                .collect(),
        };
        let secrets = secrets.into_iter().map(|field| Secret {
            field,
            entrances: Arc::clone(&entrances),
        });
        Ok(Self {
            hosts: match pattern.as_str() {
                "*" => None,
                _ => Sites::new("host.match", std::slice::from_ref(pattern))?,
            },
            settings: block.clone(),
            fields,
            secrets: secrets.collect(),
        })
    }

    fn matches(&self, host: &str) -> bool {
        self.hosts.as_ref().is_none_or(|hosts| hosts.hold(host))
    }

    /// What the block says takes the place of what `access` said before.
    fn rule(&self, access: &mut HostAccess) {
        let block = &self.settings;
        access.delay_ms = block.delay_ms.unwrap_or(access.delay_ms);
        access.max_pages = block.max_pages.unwrap_or(access.max_pages);
        access.bytes_per_s = block.bytes_per_s.unwrap_or(access.bytes_per_s);
        access.keeps_cookies = block.keep_cookies.unwrap_or(access.keeps_cookies);
        if let Some(agent) = &block.user_agent {
            access.user_agent = Some(agent.clone());
            access.product = product_of(agent).to_owned();
        }
        if let Some(product) = &block.product {
            access.product.clone_from(product);
        }
        let is_new = |old: &Field| !self.fields.iter().any(|f| same_name(f, old));
        access.fields.retain(is_new);
        access.fields.extend(self.fields.iter().cloned());
        access.secrets.splice(..0, self.secrets.iter().cloned());
    }
}

impl HostAccess {
    /// What goes along with a request to this origin of the host, but for cookies.
    fn fields(&self, origin: &Origin) -> Cow<'_, [Field]> {
        if self.secrets.is_empty() {
            return Cow::Borrowed(&self.fields);
        }
        let is_for = |e: &Entrance| e.scheme == origin.scheme && e.port == origin.port;
        let mut secrets: Vec<Field> = Vec::new();
        for secret in self
            .secrets
            .iter()
            .filter(|s| s.entrances.iter().any(is_for))
        {
            if !secrets.iter().any(|field| same_name(field, &secret.field)) {
                secrets.push(secret.field.clone());
            }
        }
        let is_new = |old: &&Field| !secrets.iter().any(|f| same_name(f, old));
        let mut all: Vec<Field> = self.fields.iter().filter(is_new).cloned().collect();
        all.append(&mut secrets);
        Cow::Owned(all)
    }
}

fn same_name(one: &Field, other: &Field) -> bool {
    one.name.eq_ignore_ascii_case(&other.name)
}

fn field(settings: &Settings, text: &str) -> Option<Field> {
    // That it is sound was checked with the settings.
    split_field(text).map(|(name, value)| Field {
        name: name.to_owned(),
        value: value.to_owned(),
        withheld: settings.is_withheld(name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_net::Scheme;

    fn access(text: &str) -> Access {
        let settings = Settings::with_overrides(text).expect("settings");
        Access::new(&settings, 0).expect("access")
    }

    fn sent(access: &Access, scheme: Scheme, host: &str, port: u16) -> String {
        let origin = Origin::new(scheme, host, port);
        let of = access.of(host);
        let fields: Vec<String> = of
            .fields(&origin)
            .iter()
            .map(|f| format!("{}={}", f.name, f.value))
            .collect();
        fields.join(" ")
    }

    const BLOCKS: &str = r#"
        [access]
        headers = ["X-Purpose: archive", "X-Team: a"]
        [[host]]
        match = "login.example.org"
        delay_ms = 5000
        auth = "alice:secret"
        [[host]]
        match = "*.example.org"
        delay_ms = 200
        max_pages = 7
        user_agent = "visitor/2 (friendly)"
        headers = ["x-team: b"]
        [[host]]
        match = "api.test"
        bearer = "t0ken"
        send_to = ["http:8080", "https"]
    "#;

    #[test]
    fn each_setting_is_that_of_the_first_block_that_has_it() {
        let access = access(BLOCKS);
        let login = access.of("login.example.org");
        assert_eq!((login.delay_ms, login.max_pages), (5_000, 7));
        assert_eq!(login.product, "visitor");
        let www = access.of("www.example.org");
        assert_eq!((www.delay_ms, www.max_pages), (200, 7));
        assert_eq!(www.user_agent.as_deref(), Some("visitor/2 (friendly)"));
        let other = access.of("example.net");
        assert_eq!((other.delay_ms, other.max_pages), (1_000, 0));
        assert_eq!(
            (other.product.as_str(), &other.user_agent),
            ("portolan", &None)
        );
        let fields = sent(&access, Scheme::Http, "www.example.org", 80);
        assert_eq!(fields, "X-Purpose=archive x-team=b");
    }

    #[test]
    fn a_secret_goes_nowhere_but_where_its_block_says() {
        let access = access(BLOCKS);
        let has = |scheme, host, port| sent(&access, scheme, host, port).contains("Authorization");
        assert!(has(Scheme::Https, "login.example.org", 443));
        assert!(
            !has(Scheme::Http, "login.example.org", 80),
            "another scheme"
        );
        assert!(
            !has(Scheme::Https, "login.example.org", 8443),
            "another port"
        );
        assert!(!has(Scheme::Https, "www.example.org", 443), "another host");
        assert!(has(Scheme::Http, "api.test", 8080) && has(Scheme::Https, "api.test", 443));
        assert!(!has(Scheme::Http, "api.test", 80) && !has(Scheme::Https, "api.test", 8080));
        let fields = sent(&access, Scheme::Https, "login.example.org", 443);
        assert!(
            fields.ends_with("Authorization=Basic YWxpY2U6c2VjcmV0"),
            "{fields}"
        );
    }

    #[test]
    fn mistakes_are_told_before_anything_is_asked_and_without_the_secret() {
        let wrong = |text: &str| match Settings::with_overrides(text) {
            Err(error) => error.to_string(),
            Ok(settings) => Access::new(&settings, 0).expect_err(text).to_string(),
        };
        for (text, told) in [
            ("[[host]]\ndelay_ms = 3", "match"),
            ("[[host]]\nmatch = \"a/b\"", "a/b"),
            ("[[host]]\nmatch = \"a.test\"\nsend_to = [\"ftp\"]", "ftp"),
            (
                "[[host]]\nmatch = \"a.test\"\nuser_agent = \"7\"",
                "user_agent",
            ),
            (
                "[[host]]\nmatch = \"a.test\"\nauth = \"s3cret\"",
                "user:password",
            ),
            (
                "[[host]]\nmatch = \"a.test\"\nauth = \"env:S3CRET_NO\"",
                "S3CRET_NO",
            ),
            (
                "[[host]]\nmatch = \"a.test\"\nheaders = [\"X: \\n s3cret\"]",
                "headers",
            ),
            (
                "[access]\nheaders = [\"Authorization: s3cret\"]",
                "[[host]]",
            ),
            ("[access]\nheaders = [\"cookie: s3cret\"]", "every host"),
            ("[access]\nheaders = [\"Host: s3cret\"]", "Host"),
            ("[access]\nheaders = [\"no colon\"]", "access.headers"),
        ] {
            let said = wrong(text);
            assert!(
                said.contains(told) && !said.contains("s3cret"),
                "{text}: {said}"
            );
        }
    }
}
