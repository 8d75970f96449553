//! Programs for tests of the server, and updates of their objects.
// SPDX-License-Identifier: Apache-2.0
use narrows_proto::p4::config::v1::{
    self as config, p4_data_type_spec::TypeSpec, Digest, P4DataTypeSpec, P4Info, P4NamedType, Preamble,
};
use narrows_proto::p4::v1::{self as p4, entity::Entity, update::Type};

#[path = "../../../pipeline/tests/common/mod.rs"]
pub mod common;

pub const DIGEST: u32 = 0x1700_0001;

/// A program with a digest.
pub fn config() -> p4::ForwardingPipelineConfig {
    let preamble = Some(Preamble { id: DIGEST, name: "learned".into(), ..Preamble::default() });
    let shape = TypeSpec::Struct(P4NamedType { name: "learned_t".into() });
    let digest = Digest { preamble, type_spec: Some(P4DataTypeSpec { type_spec: Some(shape) }) };
    let p4_device_config = common::program(serde_json::json!([]), serde_json::json!([])).to_string().into_bytes();
    let p4info = Some(P4Info { digests: vec![digest], ..P4Info::default() });
    p4::ForwardingPipelineConfig { p4info, p4_device_config, ..Default::default() }
}

pub const TABLE: u32 = 0x0200_0001;
pub const SET: u32 = 0x0100_0001;
pub const NOTHING: u32 = 0x0100_0002;
pub const REGISTER: u32 = 0x1600_0001;
pub const METER: u32 = 0x1500_0001;
pub const SETS: u32 = 0x0300_0001;

pub fn preamble(id: u32, name: &str) -> Option<Preamble> {
    Some(Preamble { id, name: name.into(), ..Preamble::default() })
}

/// A program with a table of an exact key of 16 bits, idle timeouts and counters, and a register of four cells.
pub fn with_table() -> p4::ForwardingPipelineConfig {
    with_table_behind(serde_json::json!([]))
}

/// The same, whose ingress does something before it.
pub fn with_table_behind(ingress: serde_json::Value) -> p4::ForwardingPipelineConfig {
    let key = serde_json::json!([{"match_type": "exact", "target": ["h", "b"], "mask": null, "name": "b"}]);
    let mut program = common::with_table(common::program(ingress, serde_json::json!([])), key, "exact");
    for table in program["pipelines"][0]["tables"].as_array_mut().into_iter().flatten() {
        table["support_timeout"] = serde_json::json!(table["name"] == "t");
    }
    let field = config::MatchField {
        id: 1,
        name: "b".into(),
        bitwidth: 16,
        r#match: Some(config::match_field::Match::MatchType(config::match_field::MatchType::Exact as i32)),
        ..Default::default()
    };
    let reference = |id| config::ActionRef { id, ..Default::default() };
    let table = config::Table {
        preamble: preamble(TABLE, "t"),
        match_fields: vec![field],
        action_refs: vec![reference(SET), reference(NOTHING)],
        size: 1024,
        ..Default::default()
    };
    let param =
        |id, name: &str, bitwidth| config::action::Param { id, name: name.into(), bitwidth, ..Default::default() };
    let set =
        config::Action { preamble: preamble(SET, "set"), params: vec![param(1, "port", 9), param(2, "wide", 128)] };
    let nothing = config::Action { preamble: preamble(NOTHING, "nothing"), ..Default::default() };
    let register = config::Register { preamble: preamble(REGISTER, "r"), size: 4, ..Default::default() };
    let p4info =
        P4Info { tables: vec![table], actions: vec![set, nothing], registers: vec![register], ..P4Info::default() };
    let p4_device_config = program.to_string().into_bytes();
    p4::ForwardingPipelineConfig { p4info: Some(p4info), p4_device_config, ..Default::default() }
}

/// An update of the entry with this key, whose action sends to a port.
pub fn entry(kind: Type, key: u8, port: u8) -> p4::Update {
    let exact = p4::field_match::Exact { value: vec![key] };
    let matched = p4::FieldMatch { field_id: 1, field_match_type: Some(p4::field_match::FieldMatchType::Exact(exact)) };
    let param = |param_id, value| p4::action::Param { param_id, value: vec![value] };
    let action = p4::Action { action_id: SET, params: vec![param(1, port), param(2, 7)] };
    let action = p4::TableAction { r#type: Some(p4::table_action::Type::Action(action)) };
    update(
        kind,
        Entity::TableEntry(p4::TableEntry {
            table_id: TABLE,
            r#match: vec![matched],
            action: Some(action),
            metadata: vec![key],
            ..Default::default()
        }),
    )
}

pub fn update(kind: Type, entity: Entity) -> p4::Update {
    p4::Update { r#type: kind as i32, entity: Some(p4::Entity { entity: Some(entity) }) }
}

/// Of all cells of the register.
pub fn cells(value: u8) -> p4::Update {
    let data = Some(p4::P4Data { data: Some(p4::p4_data::Data::Bitstring(vec![value])) });
    update(Type::Modify, Entity::RegisterEntry(p4::RegisterEntry { register_id: REGISTER, index: None, data }))
}

pub fn group(kind: Type, port: u8) -> p4::Update {
    let port_kind = Some(p4::replica::PortKind::Port(vec![port]));
    let replicas = vec![p4::Replica { port_kind, instance: 1, ..Default::default() }];
    let group = p4::MulticastGroupEntry { multicast_group_id: 3, replicas, ..Default::default() };
    let group = p4::packet_replication_engine_entry::Type::MulticastGroupEntry(group);
    update(kind, Entity::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry { r#type: Some(group) }))
}
