//! The store: immutable objects under names that are never used twice. Any store of the `object_store` crate would do; a
//! directory and S3 are opened here. What fails is tried again without end, since nothing can go on without it.

mod open;

use crate::error::FleetError;
use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutPayload};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Pauses between attempts grow from the first of these to the second.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// An attempt that takes longer than this has failed.
const ATTEMPT: Duration = Duration::from_secs(120);

/// One that takes longer than this is told of.
const SLOW: Duration = Duration::from_secs(10);

/// A store, opened. Cheap to clone.
///
/// Every call waits until the store has answered, however long that takes: drop the future to give up. `trouble` says
/// meanwhile what is wrong.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let dir = tempfile::tempdir().unwrap();
/// let blobs = portolan_fleet::Blobs::open(dir.path().to_str().unwrap())?;
/// blobs.put("warc/a/000000000000", "first ".into()).await;
/// blobs.put("warc/a/000000000006", "second".into()).await;
/// let keys = blobs.list("warc/a/").await;
/// assert_eq!(keys.iter().map(|object| object.bytes).collect::<Vec<_>>(), [6, 6]);
/// assert_eq!(blobs.get(&keys[1].key).await.unwrap(), "second");
/// assert!(blobs.get("warc/b/000000000000").await.is_none());
/// # Ok::<(), portolan_fleet::FleetError>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Blobs {
    store: Arc<dyn ObjectStore>,
    /// As a person named it.
    place: String,
    trouble: Arc<Mutex<Option<String>>>,
}

/// An object of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub key: String,
    pub bytes: u64,
}

impl Blobs {
    /// A directory, `file:///DIRECTORY` or `s3://BUCKET/PREFIX`, the latter with the environment's `AWS_…` variables.
    /// Nothing is written yet; see `check_writable`.
    pub fn open(place: &str) -> Result<Self, FleetError> {
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            Some((name, value.into_string().ok()?))
        });
        Self::open_with(place, variables)
    }

    /// With these variables instead of the environment's.
    pub fn open_with(
        place: &str,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, FleetError> {
        let variables = variables
            .into_iter()
            .filter(|(name, _)| name.starts_with("AWS_"));
        Ok(Self {
            store: open::store(place, variables.collect())?,
            place: place.to_owned(),
            trouble: Arc::default(),
        })
    }

    /// Writes and reads one small object, without a second attempt.
    pub async fn check_writable(&self) -> Result<(), FleetError> {
        let key = Path::from(format!("writable/{}", std::process::id()));
        let tried = async {
            self.store
                .put(&key, PutPayload::from_static(b"portolan"))
                .await?;
            let read = self.store.get(&key).await?.bytes().await?;
            self.store.delete(&key).await?;
            Ok(read)
        };
        let why = match tokio::time::timeout(Duration::from_secs(20), tried).await {
            Ok(Ok(read)) if read == "portolan" => return Ok(()),
            Ok(Ok(_)) => "it gives back something else than what was written".to_owned(),
            Ok(Err(error)) => first_line(&error),
            Err(_) => "no answer in 20 s".to_owned(),
        };
        let store = self.place.clone();
        Err(FleetError::StoreNotWritable { store, why })
    }

    /// One attempt to read a small object; `None` if there is no such object. For people who wait for an answer.
    pub async fn get_once(&self, key: &str) -> Result<Option<Bytes>, FleetError> {
        let path = Path::from(key);
        let tried = async { self.store.get(&path).await?.bytes().await };
        let why = match tokio::time::timeout(Duration::from_secs(20), tried).await {
            Ok(Ok(read)) => return Ok(Some(read)),
            Ok(Err(Error::NotFound { .. })) => return Ok(None),
            Ok(Err(error)) => first_line(&error),
            Err(_) => "no answer in 20 s".to_owned(),
        };
        let store = self.place.clone();
        Err(FleetError::StoreNotReadable { store, why })
    }

    /// An object whose name was used before is replaced; names are unique, so that it is the same one.
    pub async fn put(&self, key: &str, bytes: Bytes) {
        let path = Path::from(key);
        self.until_done(key, || {
            let payload = PutPayload::from_bytes(bytes.clone());
            async {
                self.store
                    .put(&path, payload)
                    .await
                    .map(|_| ())
                    .map_err(no_place)
            }
        })
        .await
        .unwrap_or_default()
    }

    /// `None` if there is no such object.
    pub async fn get(&self, key: &str) -> Option<Bytes> {
        let path = Path::from(key);
        self.until_done(key, || async { self.store.get(&path).await?.bytes().await })
            .await
    }

    /// How long an object is; `None` if there is no such object.
    pub async fn bytes_of(&self, key: &str) -> Option<u64> {
        let path = Path::from(key);
        let head = || async { Ok(self.store.head(&path).await?.size) };
        self.until_done(key, head).await
    }

    /// A part of an object; `None` if there is no such object.
    pub async fn get_range(&self, key: &str, range: Range<u64>) -> Option<Bytes> {
        let path = Path::from(key);
        self.until_done(key, || self.store.get_range(&path, range.clone()))
            .await
    }

    /// All objects whose keys begin with `prefix`, which ends in `/`, sorted by key.
    pub async fn list(&self, prefix: &str) -> Vec<Object> {
        let path = Path::from(prefix.trim_end_matches('/'));
        let list = || async {
            let listed = self.store.list(Some(&path));
            let object = |meta: object_store::ObjectMeta| Object {
                key: meta.location.to_string(),
                bytes: meta.size,
            };
            listed.map_ok(object).try_collect::<Vec<_>>().await
        };
        let mut objects = self.until_done(prefix, list).await.unwrap_or_default();
        objects.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        objects
    }

    /// It does not matter if it is gone already.
    pub async fn delete(&self, key: &str) {
        let path = Path::from(key);
        self.until_done(key, || self.store.delete(&path)).await;
    }

    /// What is wrong with the store now, if something is.
    pub fn trouble(&self) -> Option<String> {
        self.trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// As a person named it.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Tries until the store has answered. `None` if it answered that there is no such object.
    async fn until_done<T, F>(&self, key: &str, mut attempt: impl FnMut() -> F) -> Option<T>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        let mut pause = FIRST_PAUSE;
        loop {
            let mut attempted = std::pin::pin!(tokio::time::timeout(ATTEMPT, attempt()));
            let answered = tokio::select! {
                answered = &mut attempted => answered,
                () = tokio::time::sleep(SLOW) => {
                    let why = format!("no answer for {} s", SLOW.as_secs());
                    self.set_trouble(Some(format!("the store {}: {why}", self.place)));
                    attempted.await
                }
            };
            let why = match answered {
                Ok(Ok(done)) => {
                    self.set_trouble(None);
                    return Some(done);
                }
                Ok(Err(Error::NotFound { .. })) => {
                    self.set_trouble(None);
                    return None;
                }
                Ok(Err(error)) => first_line(&error),
                Err(_) => format!("no answer in {} s", ATTEMPT.as_secs()),
            };
            tracing::warn!(
                store = self.place,
                key,
                why,
                "the store does not answer as it should"
            );
            self.set_trouble(Some(format!("the store {}: {why}", self.place)));
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn set_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }
}

/// Where there is no place to write to, nothing was written: a bucket that is gone may come back.
fn no_place(error: Error) -> Error {
    match error {
        Error::NotFound { path, .. } => Error::Generic {
            store: "the place",
            source: format!("{path} has no place to be written to").into(),
        },
        other => other,
    }
}

/// Errors of stores run over pages; the first line says what is wrong.
fn first_line(error: &Error) -> String {
    let text = error.to_string();
    if text.contains("169.254.169.254") {
        return "neither the environment nor this machine has credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            .to_owned();
    }
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(300).collect()
}
