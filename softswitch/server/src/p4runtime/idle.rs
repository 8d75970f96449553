//! Idle timeouts: notifies the primaries of table entries that no packet has found for as long as their controllers said.
// SPDX-License-Identifier: Apache-2.0
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use narrows_proto::p4::v1::{self as p4, stream_message_response::Update, StreamMessageResponse};
use narrows_switch::io::{now_ns, Gone};

use super::change::{Cookie, EntryKey};
use super::control::Control;
use super::entry;
use super::read::add_cookie;

/// The shortest time between two looks at the entries.
const INTERVAL: Duration = Duration::from_millis(10);
/// The longest.
const LONGEST: Duration = Duration::from_secs(3_600);

/// When the primaries were last notified of an entry.
type Notified = HashMap<EntryKey, u64>;

/// Looks for idle entries until the data path ends.
pub async fn watch_idle(control: Arc<Control>) {
    let mut notified = Notified::new();
    while let Ok(next) = look(&control, &mut notified).await {
        let wait = next.map_or(LONGEST, Duration::from_nanos);
        tokio::select! {
            () = tokio::time::sleep(wait.clamp(INTERVAL, LONGEST)) => {}
            () = control.idle_changed.notified() => {}
        }
    }
}

/// Notifies of the entries that are idle now; returns in how many nanoseconds the next one can be.
async fn look(control: &Control, notified: &mut Notified) -> Result<Option<u64>, Gone> {
    let mut pipelines = control.pipelines.lock().await;
    // What is saved only sees no packets.
    let Some(active) = &mut pipelines.active else {
        return Ok(None);
    };
    let timed: Vec<(EntryKey, Cookie)> = (active.cookies.iter())
        .filter(|(_, cookie)| cookie.idle_timeout_ns > 0)
        .map(|(key, cookie)| (key.clone(), cookie.clone()))
        .collect();
    notified.retain(|key, _| active.cookies.get(key).is_some_and(|cookie| cookie.idle_timeout_ns > 0));
    if timed.is_empty() {
        return Ok(None);
    }
    let schema = Arc::clone(&active.schema);
    let keys: Vec<EntryKey> = timed.iter().map(|(key, _)| key.clone()).collect();
    let device = control.device;
    let read = move |data_path: &mut narrows_switch::io::DataPath| {
        let hit = |(table, key, priority): &EntryKey| {
            data_path.switch.unit(device).and_then(|unit| unit.pipeline.entry_hit_ns(*table, key, *priority).ok())
        };
        keys.iter().map(hit).collect::<Vec<_>>()
    };
    let hits = control.handle.call(read).await?;
    drop(pipelines);
    let now_ns = now_ns();
    let (mut idle, mut next) = (vec![], None::<u64>);
    for ((key, cookie), hit_ns) in timed.into_iter().zip(hits) {
        let Some(hit_ns) = hit_ns else { continue };
        let timeout_ns = cookie.idle_timeout_ns as u64;
        let since_ns = hit_ns.max(notified.get(&key).copied().unwrap_or(0));
        let mut left_ns = since_ns.saturating_add(timeout_ns).saturating_sub(now_ns);
        if left_ns == 0 {
            let table = schema.tables.iter().find(|(_, table)| table.id == key.0);
            if let Some((table_id, table)) = table {
                let mut found = p4::TableEntry {
                    table_id: *table_id,
                    r#match: entry::to_fields(&table.keys, &key.1),
                    priority: key.2,
                    ..Default::default()
                };
                add_cookie(&mut found, Some(&cookie));
                idle.push(found);
            }
            notified.insert(key, now_ns);
            left_ns = timeout_ns;
        }
        next = Some(next.map_or(left_ns, |next| next.min(left_ns)));
    }
    if !idle.is_empty() {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let timestamp = i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX);
        let notification = p4::IdleTimeoutNotification { table_entry: idle, timestamp };
        let message = StreamMessageResponse { update: Some(Update::IdleTimeoutNotification(notification)) };
        // Not guaranteed to arrive: another follows after each timeout that an entry stays idle.
        control.clients().to_primaries(&message);
    }
    Ok(next)
}
