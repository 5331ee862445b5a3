//! Who fetches what, by hash and by the domain.

use portolan_model::{CanonicalUrl, Identities, PartitionId, UrlKey};

use super::{Chosen, DIVISION_DIR, Division};
use crate::settings::{PartitionMethod, Settings};

fn part(division: &Division, url: &str) -> PartitionId {
    let url = CanonicalUrl::from_canonical(url.to_owned()).expect("a URL");
    let ids = Identities::PUBLIC;
    let key = UrlKey {
        doc: ids.doc(url.as_str()),
        host: ids.host(url.host()),
        url: url.as_str(),
        host_name: url.host(),
    };
    division.part_of(key, PartitionId(0))
}

#[test]
fn by_hash_all_urls_of_a_site_are_one_partitions() {
    let division = Division::by_hash(16);
    let mut met = std::collections::BTreeSet::new();
    for site in 0..200 {
        let first = part(&division, &format!("http://s{site}.test/"));
        assert!(first.0 < 16);
        for page in 0..5 {
            assert_eq!(
                part(&division, &format!("http://s{site}.test/{page}")),
                first
            );
        }
        met.insert(first);
    }
    assert_eq!(met.len(), 16, "every partition has some site");
}

#[test]
fn a_crawl_by_hash_remembers_nothing_and_refuses_to_go_on_otherwise() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut settings = Settings::default();
    settings.registry.partitions = 3;
    let chosen = Chosen::of(&settings, None).expect("by hash");
    assert_eq!(chosen.partitions(), 3);
    chosen.remember(dir.path()).expect("nothing to write");
    assert!(!dir.path().join(DIVISION_DIR).exists());
    settings.partition.method = PartitionMethod::Dset;
    let told = Chosen::of(&settings, Some(&dir.path().to_owned())).err();
    let told = told.expect("it began by hash").to_string();
    assert!(told.starts_with("partition.method"), "{told}");
}

#[test]
fn a_method_without_its_file_is_told_in_a_sentence() {
    let mut settings = Settings::default();
    for (method, setting) in [
        (PartitionMethod::Dset, "partition.dsets"),
        (PartitionMethod::Vector, "partition.vector"),
    ] {
        settings.partition.method = method;
        let told = Chosen::of(&settings, None)
            .err()
            .expect("no file")
            .to_string();
        assert!(told.starts_with(setting), "{told}");
    }
}

#[test]
fn domain_sets_are_copied_and_the_copy_holds() {
    let home = tempfile::tempdir().expect("a directory");
    let named = home.path().join("sets.txt");
    std::fs::write(&named, "example\ntest\norg\n").expect("written");
    let mut settings = Settings::default();
    settings.registry.partitions = 3;
    settings.partition.method = PartitionMethod::Dset;
    settings.partition.dsets = named.display().to_string();
    let dir = home.path().join("crawl");
    std::fs::create_dir(&dir).expect("made");
    let chosen = Chosen::of(&settings, None).expect("three sets");
    chosen.remember(&dir).expect("copied");
    let division = chosen.open(&dir, 3, false).expect("opened");
    let of_test = part(&division, "http://a.test/");
    assert_eq!(part(&division, "http://other.test/x"), of_test);
    assert_ne!(part(&division, "http://a.example/"), of_test);
    // The file that was named is gone; the crawl goes on with its copy.
    std::fs::remove_file(&named).expect("removed");
    let again = Chosen::of(&settings, Some(&dir)).expect("the copy");
    let division = again.open(&dir, 3, true).expect("opened");
    assert_eq!(part(&division, "http://a.test/"), of_test);
    // Another file of that name is not what it began with.
    std::fs::write(&named, "net\ncom\norg\n").expect("written");
    let told = Chosen::of(&settings, Some(&dir)).err().expect("another");
    assert!(told.to_string().contains("partition.dsets"), "{told}");
}
