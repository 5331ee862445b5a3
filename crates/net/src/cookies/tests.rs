use super::*;

const NOW: u64 = 1_800_000_000_000;

fn origin(scheme: Scheme, host: &str) -> Origin {
    Origin::new(scheme, host, scheme.default_port())
}

fn set(jar: &mut CookieJar, host: &str, path: &str, field: &str) {
    jar.set(field, &origin(Scheme::Https, host), path, NOW);
}

fn sent(jar: &CookieJar, host: &str, path: &str) -> String {
    let sent = jar.sent_to(&origin(Scheme::Https, host), path, NOW);
    sent.unwrap_or_default()
}

#[test]
fn a_cookie_goes_back_to_its_host_and_path_and_to_nobody_else() {
    let mut jar = CookieJar::default();
    assert!(jar.is_empty());
    set(&mut jar, "www.example.org", "/a/login?x", "sid=1; HttpOnly");
    set(&mut jar, "www.example.org", "/", "all=2; Path=/");
    set(
        &mut jar,
        "www.example.org",
        "/",
        "wide=3; Domain=example.org; Path=/",
    );
    assert_eq!(
        sent(&jar, "www.example.org", "/a/x"),
        "sid=1; all=2; wide=3"
    );
    assert_eq!(sent(&jar, "www.example.org", "/a"), "sid=1; all=2; wide=3");
    assert_eq!(sent(&jar, "www.example.org", "/ab"), "all=2; wide=3");
    assert_eq!(sent(&jar, "other.example.org", "/a/x"), "wide=3");
    assert_eq!(sent(&jar, "example.org", "/"), "wide=3");
    for stranger in [
        "example.net",
        "notexample.org",
        "org",
        "www.example.org.evil.net",
    ] {
        assert_eq!(sent(&jar, stranger, "/a/x"), "", "{stranger}");
    }
}

#[test]
fn nobody_sets_cookies_for_others() {
    let mut jar = CookieJar::default();
    for (host, field) in [
        ("a.example.org", "x=1; Domain=b.example.org"),
        ("a.example.org", "x=1; Domain=org"),
        ("shop.co.uk", "x=1; Domain=co.uk"),
        ("a.github.io", "x=1; Domain=github.io"),
        ("example.org", "x=1; Domain=a.example.org"),
        ("10.0.0.1", "x=1; Domain=0.0.1"),
        ("a.test", "__Host-x=1; Path=/"),
        ("a.test", "__Secure-x=1"),
        ("a.test", "=1"),
        ("a.test", "no name"),
    ] {
        set(&mut jar, host, "/", field);
        assert!(jar.is_empty(), "{field}");
    }
    jar.set("x=1; Secure", &origin(Scheme::Http, "a.test"), "/", NOW);
    assert!(jar.is_empty(), "plain http sets no secure cookie");
    // A public suffix that is a host itself has its own.
    set(&mut jar, "github.io", "/", "own=1; Domain=github.io");
    assert_eq!(sent(&jar, "github.io", "/"), "own=1");
    assert_eq!(sent(&jar, "a.github.io", "/"), "");
    set(&mut jar, "a.test", "/", "__Host-x=1; Path=/; Secure");
    assert_eq!(sent(&jar, "a.test", "/"), "__Host-x=1");
    assert_eq!(jar.sent_to(&origin(Scheme::Http, "a.test"), "/", NOW), None);
}

#[test]
fn cookies_are_replaced_taken_back_and_over() {
    let mut jar = CookieJar::default();
    set(&mut jar, "a.test", "/", "x=1; Max-Age=10");
    set(
        &mut jar,
        "a.test",
        "/",
        "y=1; Expires=Wed, 21 Oct 2015 07:28:00 GMT",
    );
    set(
        &mut jar,
        "a.test",
        "/",
        "z=1; Expires=Sun, 21 Oct 2040 07:28:00 GMT",
    );
    assert_eq!(sent(&jar, "a.test", "/"), "x=1; z=1");
    let later = jar.sent_to(&origin(Scheme::Https, "a.test"), "/", NOW + 10_000);
    assert_eq!(later.as_deref(), Some("z=1"));
    let changes = jar.changes();
    set(
        &mut jar,
        "a.test",
        "/",
        "z=1; Expires=Sun, 21 Oct 2040 07:28:00 GMT",
    );
    assert_eq!(jar.changes(), changes, "the same again is no change");
    set(&mut jar, "a.test", "/", "x=2");
    assert_eq!(sent(&jar, "a.test", "/"), "x=2; z=1");
    set(&mut jar, "a.test", "/", "x=; Max-Age=0");
    set(&mut jar, "a.test", "/", "z=; Max-Age=-1");
    assert!(jar.is_empty() && jar.changes() > changes);
}

#[test]
fn whatever_servers_send_the_jar_is_bounded() {
    let mut jar = CookieJar::default();
    for n in 0..200 {
        set(&mut jar, "a.test", "/", &format!("n{n}=1"));
    }
    assert_eq!(jar.count, MAX_OF_DOMAIN);
    assert!(
        sent(&jar, "a.test", "/").contains("n199=1") && !sent(&jar, "a.test", "/").contains("n0=1")
    );
    set(
        &mut jar,
        "b.test",
        "/",
        &format!("x={}", "v".repeat(MAX_COOKIE_BYTES)),
    );
    set(
        &mut jar,
        "b.test",
        "/",
        &format!("x=1; Path=/{}", "p".repeat(MAX_ATTRIBUTE_BYTES)),
    );
    assert_eq!(sent(&jar, "b.test", "/"), "");
    for n in 0..20 {
        set(
            &mut jar,
            "c.test",
            "/",
            &format!("n{n}={}", "v".repeat(1000)),
        );
    }
    assert!(sent(&jar, "c.test", "/").len() <= MAX_SENT_BYTES);
    for n in 0..MAX_OF_ALL + 100 {
        set(&mut jar, &format!("h{n}.test"), "/", "x=1");
    }
    assert!(
        jar.count <= MAX_OF_ALL && jar.count > MAX_OF_ALL / 2,
        "{}",
        jar.count
    );
    assert_eq!(jar.count, jar.domains.values().map(Vec::len).sum::<usize>());
    assert_eq!(
        sent(&jar, &format!("h{}.test", MAX_OF_ALL + 99), "/"),
        "x=1"
    );
}

#[test]
fn netscapes_files_are_read_and_written() {
    let text = "# Netscape HTTP Cookie File\n\n\
        .example.org\tTRUE\t/\tFALSE\t0\tsession\tabc\n\
        #HttpOnly_www.example.org\tFALSE\t/members\tTRUE\t2000000000\tsid\tx=y z\r\n\
        old.example.org\tFALSE\t/\tFALSE\t1\tgone\t1\n\
        empty.example.org\tFALSE\t/\tFALSE\t0\tname\n";
    let jar = CookieJar::from_netscape(text, NOW).expect("cookies");
    assert_eq!(
        sent(&jar, "www.example.org", "/members/1"),
        "sid=x=y z; session=abc"
    );
    assert_eq!(
        jar.sent_to(&origin(Scheme::Http, "www.example.org"), "/members", NOW)
            .as_deref(),
        Some("session=abc")
    );
    assert_eq!(sent(&jar, "empty.example.org", "/"), "session=abc; name=");
    let again = CookieJar::from_netscape(&jar.to_netscape(NOW), NOW).expect("what was written");
    assert_eq!(again.domains, jar.domains);
    let mut both = CookieJar::default();
    set(
        &mut both,
        "www.example.org",
        "/members/",
        "sid=old; Path=/members; Secure",
    );
    both.add_all(jar, NOW);
    assert_eq!(
        sent(&both, "www.example.org", "/members"),
        "sid=x=y z; session=abc"
    );
    for (bad, line) in [
        ("a.test\tFALSE\t/\tFALSE\t0", 1),
        ("# c\na.test\tMAYBE\t/\tFALSE\t0\tn\ts3cret", 2),
        ("a.test\tFALSE\t/\tFALSE\tsoon\tn\ts3cret", 1),
        ("{\"json\": true}", 1),
    ] {
        let said = CookieJar::from_netscape(bad, NOW).expect_err(bad);
        assert_eq!(said.line, line);
        assert!(!said.to_string().contains("s3cret"));
    }
}
