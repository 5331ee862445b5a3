//! Which group under a hub has which partition: what `[[dset]]` blocks say, and the groups in turn for the rest.

use crate::error::CrawlError;
use crate::settings::{PartitionMethod, Settings};

/// By partition: the number of the group that has it.
pub fn owners_of(
    settings: &Settings,
    groups: &[String],
    partitions: u16,
) -> Result<Vec<u16>, CrawlError> {
    let wrong = |what: String| Err(CrawlError::Input(what));
    if settings.partition.method == PartitionMethod::Vector {
        return wrong(
            "partition.method: groups are made of DSets or by hash; a part vector divides one fleet".to_owned(),
        );
    }
    let mut turn = (0..groups.len()).cycle();
    let mut owners = Vec::with_capacity(usize::from(partitions));
    for partition in 0..usize::from(partitions) {
        let named = settings.dset.get(partition).map(|set| set.group.as_str());
        let owner = match named {
            None | Some("") => turn.next().unwrap_or_default(),
            Some(named) => match groups.iter().position(|group| group == named) {
                Some(owner) => owner,
                None => {
                    return wrong(format!(
                        "[[dset]]: its group '{named}' is none of the crawl's: {}",
                        groups.join(", ")
                    ));
                }
            },
        };
        // There are fewer than 65,536 partitions, and each group has one.
        owners.push(u16::try_from(owner).unwrap_or(u16::MAX));
    }
    Ok(owners)
}

/// A block's group means nothing where there are no groups.
pub fn refuse_groups(settings: &Settings) -> Result<(), CrawlError> {
    match settings.dset.iter().find(|set| !set.group.is_empty()) {
        None => Ok(()),
        Some(set) => Err(CrawlError::Input(format!(
            "[[dset]]: group = \"{}\" is for a crawl of several groups, and this fleet is alone; leave it out",
            set.group
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_name_their_groups_and_the_rest_goes_in_turn() {
        let text = "[[dset]]\nextensions = [\"edu\"]\ngroup = \"s2\"\n[[dset]]\nextensions = [\"com\"]\n\
                    [[dset]]\nextensions = [\"net\"]\ngroup = \"s1\"\n";
        let settings = Settings::with_overrides(text).expect("settings");
        let groups = ["s1".to_owned(), "s2".to_owned()];
        let owners = owners_of(&settings, &groups, 6).expect("owners");
        assert_eq!(owners, [1, 0, 0, 1, 0, 1]);
        let refused = owners_of(&settings, &groups[..1], 6).expect_err("s2 is none");
        assert!(refused.to_string().contains("'s2'"), "{refused}");
        assert!(refuse_groups(&settings).is_err());
    }
}
