//! One request outside of a crawl's turns, by its connector and the guard in it.

use std::net::IpAddr;

use portolan_model::CanonicalUrl;
use portolan_net::{BodySink, Method, NetError, Request, Response};

use crate::asker::origin_of;
use crate::shared::Shared;

/// The answer, and who gave it; that is `None` behind a proxy.
pub(crate) async fn ask_once(
    shared: &Shared,
    url: &CanonicalUrl,
    sink: &mut dyn BodySink,
) -> Result<(Response, Option<IpAddr>), NetError> {
    let origin = origin_of(url);
    let access = shared.access.of(url.host());
    let resolved = shared.address_of(&origin).await?;
    let mut connection = shared.connector.connect(&origin, &resolved).await?;
    let (path, clock) = (url.path_and_query(), &*shared.clock);
    let request = Request {
        method: Method::Get,
        user_agent: access.user_agent.as_deref(),
        extra: &shared.access.fields(&access, &origin, path, clock),
        ..Request::get(path)
    };
    let response = connection.fetch(&request, sink).await?;
    Ok((response, connection.peer()))
}
