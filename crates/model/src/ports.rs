//! Ports that no Web server has: a link to one is a mistake, or an attempt to have the crawler talk to
//! another service in its operator's name.

/// The service of a port that a crawler has no business with; `None` where a Web server may be.
///
/// The first list is that of "bad ports" of the Fetch standard, which browsers refuse. The second has services
/// that browsers leave to their same-origin rules, and that a crawler must refuse itself: they act on
/// text lines of whoever reaches them, and a link can spell such lines, or a request alone does harm.
pub fn service_of_port(port: u16) -> Option<&'static str> {
    let listed = |list: &[(u16, &'static str)]| {
        let at = list.binary_search_by_key(&port, |(port, _)| *port).ok()?;
        Some(list[at].1)
    };
    listed(BAD_PORTS).or_else(|| listed(SERVICES))
}

/// <https://fetch.spec.whatwg.org/#bad-port>, sorted.
const BAD_PORTS: &[(u16, &str)] = &[
    (0, "nothing"),
    (1, "tcpmux"),
    (7, "echo"),
    (9, "discard"),
    (11, "systat"),
    (13, "daytime"),
    (15, "netstat"),
    (17, "qotd"),
    (19, "chargen"),
    (20, "FTP"),
    (21, "FTP"),
    (22, "SSH"),
    (23, "telnet"),
    (25, "SMTP"),
    (37, "time"),
    (42, "name"),
    (43, "whois"),
    (53, "DNS"),
    (69, "TFTP"),
    (77, "RJE"),
    (79, "finger"),
    (87, "terminal links"),
    (95, "supdup"),
    (101, "hostname"),
    (102, "ISO-TSAP"),
    (103, "GPPITNP"),
    (104, "DICOM"),
    (109, "POP2"),
    (110, "POP3"),
    (111, "SunRPC"),
    (113, "ident"),
    (115, "SFTP"),
    (117, "UUCP path"),
    (119, "NNTP"),
    (123, "NTP"),
    (135, "DCE endpoint mapper"),
    (137, "NetBIOS"),
    (139, "NetBIOS"),
    (143, "IMAP"),
    (161, "SNMP"),
    (179, "BGP"),
    (389, "LDAP"),
    (427, "SLP"),
    (465, "mail submission"),
    (512, "exec"),
    (513, "login"),
    (514, "shell"),
    (515, "printer"),
    (526, "tempo"),
    (530, "courier"),
    (531, "chat"),
    (532, "netnews"),
    (540, "UUCP"),
    (548, "AFP"),
    (554, "RTSP"),
    (556, "remotefs"),
    (563, "NNTP"),
    (587, "mail submission"),
    (601, "syslog"),
    (636, "LDAP"),
    (989, "FTP"),
    (990, "FTP"),
    (993, "IMAP"),
    (995, "POP3"),
    (1719, "H.323"),
    (1720, "H.323"),
    (1723, "PPTP"),
    (2049, "NFS"),
    (3659, "Apple SASL"),
    (4045, "NFS lock daemon"),
    (4190, "ManageSieve"),
    (5060, "SIP"),
    (5061, "SIP"),
    (6000, "X11"),
    (6566, "SANE"),
    (6665, "IRC"),
    (6666, "IRC"),
    (6667, "IRC"),
    (6668, "IRC"),
    (6669, "IRC"),
    (6679, "IRC"),
    (6697, "IRC"),
    (10080, "Amanda"),
];

/// Databases, queues and remote control, sorted.
const SERVICES: &[(u16, &str)] = &[
    (445, "SMB"),
    (873, "rsync"),
    (1433, "SQL Server"),
    (1521, "Oracle"),
    (2181, "ZooKeeper"),
    (2375, "Docker"),
    (2376, "Docker"),
    (3306, "MySQL"),
    (3389, "remote desktop"),
    (5432, "PostgreSQL"),
    (5672, "AMQP"),
    (5900, "VNC"),
    (6379, "Redis"),
    (9042, "Cassandra"),
    (9092, "Kafka"),
    (11211, "memcached"),
    (27017, "MongoDB"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_and_hold_no_web_port() {
        for list in [BAD_PORTS, SERVICES] {
            assert!(list.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
        for port in [
            80, 443, 81, 3000, 5000, 8000, 8008, 8080, 8443, 8888, 9000, 9443, 65535,
        ] {
            assert_eq!(service_of_port(port), None, "{port}");
        }
        assert_eq!(service_of_port(22), Some("SSH"));
        assert_eq!(service_of_port(6379), Some("Redis"));
        assert_eq!(BAD_PORTS.len(), 83);
    }
}
