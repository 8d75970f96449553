//! Action profiles: members, groups, and entries that point to them or bring a set of actions.
// SPDX-License-Identifier: Apache-2.0
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use narrows_pipeline::{ActionCall, ActionSet, ControlError, GroupConfig, Pipeline, Target};
use narrows_proto::p4::v1::{
    action_profile_action::WatchKind as ActionWatch,
    action_profile_action_set::{ActionSelectionMode, SizeSemantics},
    action_profile_group::{member::WatchKind as MemberWatch, Member},
    entity::Entity,
    table_action::Type as Given,
    update::Type,
    ActionProfileAction, ActionProfileActionSet, ActionProfileGroup, ActionProfileMember, TableAction,
};
use narrows_switch::unit::ProgramUnit;

use super::change::{Before, Change, Decoded, Operation};
use super::entry;
use super::error::UpdateError;
use super::query::{select, wrap, Query};
use super::schema::{Profile, Schema, Table};

/// What an entry or a default action does, as its controller says it.
pub enum Action {
    Direct(ActionCall),
    /// By what is in the profile with this number.
    Indirect(usize, Target),
}

impl Action {
    /// Decodes an entry's action, or with `default` a table's default action.
    pub fn decode(schema: &Schema, table: &Table, given: &TableAction, default: bool) -> Result<Self, UpdateError> {
        let Some(known) = table.profile.and_then(|id| schema.profiles.get(&id)) else {
            return entry::action(schema, table, given, default).map(Action::Direct);
        };
        let place = format!("table {}", table.name);
        let invalid = |why: &str| Err(UpdateError::invalid(format!("{place}: {why}")));
        let target = match &given.r#type {
            Some(Given::ActionProfileMemberId(id)) => Target::Member(*id),
            Some(Given::ActionProfileGroupId(_) | Given::ActionProfileActionSet(_)) if !known.selector => {
                return invalid("its action profile has no selector: its entries point to members only");
            }
            Some(Given::ActionProfileGroupId(id)) => Target::Group(*id),
            Some(Given::ActionProfileActionSet(_)) if default => {
                let message = format!("{place}: a default action with an action set of its own");
                return Err(UpdateError::unimplemented(message));
            }
            Some(Given::ActionProfileActionSet(set)) => Target::Set(action_set(schema, table, known, set)?),
            Some(Given::Action(_)) => return invalid("its actions are in an action profile: it has no direct ones"),
            None => return invalid("action.type is missing"),
        };
        Ok(Action::Indirect(known.number, target))
    }

    /// The engine's form of it, which is made. See [`Pipeline::table_action`].
    pub fn call(self, pipeline: &mut Pipeline, replaced: u64) -> Result<ActionCall, ControlError> {
        match self {
            Action::Direct(call) => Ok(call),
            Action::Indirect(profile, target) => pipeline.table_action(profile, &target, replaced),
        }
    }
}

/// A member's or an action's weight. Errors: those that the profile does not allow.
fn weight(known: &Profile, given: i32, place: &str) -> Result<u32, UpdateError> {
    let invalid = |why: &str| Err(UpdateError::invalid(format!("{place}: weight {given}: {why}")));
    match (known.weights_disallowed, u32::try_from(given)) {
        (true, Ok(0)) => Ok(1),
        (true, _) => invalid("the program allows no weights"),
        (false, Ok(0) | Err(_)) => invalid("must be above 0"),
        (false, Ok(weight)) => match known.by_members {
            Some(most) if most > 0 && weight > most => invalid(&format!("at most {most}")),
            _ => Ok(weight),
        },
    }
}

/// What members of these weights take of the profile's size.
fn size(known: &Profile, weights: impl Iterator<Item = u32>) -> u64 {
    match known.by_members {
        Some(_) => weights.count() as u64,
        None => weights.map(u64::from).sum(),
    }
}

fn no_watch_ports(place: &str) -> UpdateError {
    UpdateError::unimplemented(format!("{place}: watch ports are not supported"))
}

fn action_set(
    schema: &Schema,
    table: &Table,
    known: &Profile,
    given: &ActionProfileActionSet,
) -> Result<ActionSet, UpdateError> {
    let place = format!("table {}", table.name);
    check_modes(known, given, &place)?;
    let mut actions = Vec::with_capacity(given.action_profile_actions.len());
    for one in &given.action_profile_actions {
        let watched = match &one.watch_kind {
            #[allow(deprecated)]
            Some(ActionWatch::Watch(port)) => *port != 0,
            Some(ActionWatch::WatchPort(port)) => !port.is_empty(),
            None => false,
        };
        if watched {
            return Err(no_watch_ports(&place));
        }
        let action = one.action.as_ref();
        let action = action.ok_or_else(|| UpdateError::invalid(format!("{place}: an action of its set is missing")))?;
        actions.push((entry::call(schema, table, action, false)?, weight(known, one.weight, &place)?));
    }
    let takes = size(known, actions.iter().map(|(_, weight)| *weight));
    if known.max_group_size > 0 && takes > known.max_group_size.into() {
        let message = format!("{place}: a set of {takes}: a group has at most {}", known.max_group_size);
        return Err(UpdateError::invalid(message));
    }
    Ok(ActionSet { actions, takes, note: (given.action_selection_mode, given.size_semantics) })
}

/// Modes other than the program's own are for hardware that has them.
fn check_modes(known: &Profile, given: &ActionProfileActionSet, place: &str) -> Result<(), UpdateError> {
    let own_mode = matches!(
        given.action_selection_mode(),
        ActionSelectionMode::DefaultModeDeterminedByActionSelector | ActionSelectionMode::Hash
    );
    let own_size = match given.size_semantics() {
        SizeSemantics::DefaultSizeDeterminedByActionSelector => true,
        SizeSemantics::SumOfWeights => known.by_members.is_none(),
        SizeSemantics::SumOfMembers => known.by_members.is_some(),
    };
    match own_mode && own_size {
        true => Ok(()),
        false => {
            let message = format!("{place}: action_selection_mode and size_semantics can only be the program's own");
            Err(UpdateError::unimplemented(message))
        }
    }
}

/// P4Runtime's form of what an entry does.
pub fn to_target(schema: &Schema, target: &Target, call: &ActionCall) -> Option<TableAction> {
    let given = match target {
        Target::Action => return entry::to_action(schema, call),
        Target::Member(id) => Given::ActionProfileMemberId(*id),
        Target::Group(id) => Given::ActionProfileGroupId(*id),
        Target::Set(set) => {
            let disallowed = schema.profiles.values().any(|known| known.weights_disallowed);
            let action = |(call, weight): &(ActionCall, u32)| ActionProfileAction {
                action: entry::to_call(schema, call),
                weight: if disallowed { 0 } else { *weight as i32 },
                ..Default::default()
            };
            Given::ActionProfileActionSet(ActionProfileActionSet {
                action_profile_actions: set.actions.iter().map(action).collect(),
                action_selection_mode: set.note.0,
                size_semantics: set.note.1,
            })
        }
    };
    Some(TableAction { r#type: Some(given) })
}

/// The profile that an entity names, and the id of what it is about, which must not be 0.
fn profile_of<'s>(schema: &'s Schema, profile: u32, id: u32, what: &str) -> Result<&'s Profile, UpdateError> {
    let known = schema.profiles.get(&profile);
    let known = known.ok_or_else(|| UpdateError::not_found(format!("there is no action profile {profile}")))?;
    match id {
        0 => Err(UpdateError::invalid(format!("action profile {}: {what} must not be 0", known.name))),
        _ => Ok(known),
    }
}

/// Decodes an update of a member.
pub fn change_member(schema: &Schema, kind: Type, given: &ActionProfileMember) -> Result<Decoded, UpdateError> {
    let id = given.member_id;
    let known = profile_of(schema, given.action_profile_id, id, "member_id")?;
    let (name, number) = (&known.name, known.number);
    let call = match kind {
        Type::Delete => None,
        _ => {
            let table = schema.tables.get(&known.table);
            let table = table.ok_or_else(|| UpdateError::invalid(format!("action profile {name}: it has no table")))?;
            let action = given.action.as_ref();
            let action = action
                .ok_or_else(|| UpdateError::invalid(format!("action profile {name}: a member needs an action")))?;
            Some(entry::call(schema, table, action, false)?)
        }
    };
    let before: Before = Box::new(move |unit| {
        let kept = unit.pipeline.members(number)?.remove(&id);
        Ok(Box::new(move |unit| {
            let is_there = unit.pipeline.members(number)?.contains_key(&id);
            let done = match (kept, is_there) {
                (Some(call), true) => unit.pipeline.member_modify(number, id, &call),
                (Some(call), false) => unit.pipeline.member_insert(number, id, &call),
                (None, true) => unit.pipeline.member_delete(number, id),
                (None, false) => Ok(()),
            };
            done.map_err(UpdateError::from)
        }))
    });
    let operation: Operation = Box::new(move |unit| {
        let pipeline = &mut unit.pipeline;
        let done = match (kind, call) {
            (Type::Insert, Some(call)) => pipeline.member_insert(number, id, &call),
            (_, Some(call)) => pipeline.member_modify(number, id, &call),
            (_, None) => pipeline.member_delete(number, id),
        };
        done.map_err(UpdateError::from)
    });
    Ok(Decoded::Change(Change::new(before, operation)))
}

/// The engine's form of a group.
fn group(known: &Profile, given: &ActionProfileGroup) -> Result<GroupConfig, UpdateError> {
    let place = format!("action profile {}, group {}", known.name, given.group_id);
    let invalid = |why: String| UpdateError::invalid(format!("{place}: {why}"));
    let max_size = u32::try_from(given.max_size).map_err(|_| invalid("max_size must not be negative".to_owned()))?;
    let most = known.max_group_size;
    if most > 0 && !(1..=most).contains(&max_size) {
        return Err(invalid(format!("max_size {max_size}: allowed are 1 to {most}")));
    }
    let (mut members, mut seen) = (vec![], HashSet::new());
    for member in &given.members {
        let watched = match &member.watch_kind {
            #[allow(deprecated)]
            Some(MemberWatch::Watch(port)) => *port != 0,
            Some(MemberWatch::WatchPort(port)) => !port.is_empty(),
            None => false,
        };
        if watched {
            return Err(no_watch_ports(&place));
        }
        if !seen.insert(member.member_id) {
            return Err(invalid(format!("member {} twice", member.member_id)));
        }
        members.push((member.member_id, weight(known, member.weight, &place)?));
    }
    let takes = size(known, members.iter().map(|(_, weight)| *weight));
    if max_size > 0 && takes > max_size.into() {
        let message = format!("{place}: its members take {takes}, and max_size is {max_size}");
        return Err(UpdateError::new(tonic::Code::ResourceExhausted, message));
    }
    Ok(GroupConfig { members, max_size, takes })
}

/// Decodes an update of a group.
pub fn change_group(schema: &Schema, kind: Type, given: &ActionProfileGroup) -> Result<Decoded, UpdateError> {
    let id = given.group_id;
    let known = profile_of(schema, given.action_profile_id, id, "group_id")?;
    if !known.selector {
        let message = format!("action profile {} has no selector, and so no groups", known.name);
        return Err(UpdateError::invalid(message));
    }
    let number = known.number;
    let config = (kind != Type::Delete).then(|| group(known, given)).transpose()?;
    let before: Before = Box::new(move |unit| {
        let kept = unit.pipeline.groups(number)?.remove(&id);
        Ok(Box::new(move |unit| {
            let is_there = unit.pipeline.groups(number)?.contains_key(&id);
            let done = match (kept, is_there) {
                (Some(config), true) => unit.pipeline.group_modify(number, id, &config),
                (Some(config), false) => unit.pipeline.group_insert(number, id, &config),
                (None, true) => unit.pipeline.group_delete(number, id),
                (None, false) => Ok(()),
            };
            done.map_err(UpdateError::from)
        }))
    });
    let operation: Operation = Box::new(move |unit| {
        let pipeline = &mut unit.pipeline;
        let done = match (kind, config) {
            (Type::Insert, Some(config)) => pipeline.group_insert(number, id, &config),
            (_, Some(config)) => pipeline.group_modify(number, id, &config),
            (_, None) => pipeline.group_delete(number, id),
        };
        done.map_err(UpdateError::from)
    });
    Ok(Decoded::Change(Change::new(before, operation)))
}

/// A query of what a profile has by its ids: all of it, or only what has the id `wanted`.
fn of_ids<Value: Send + 'static>(
    known: &Profile,
    wanted: u32,
    what: &'static str,
    read: impl FnOnce(&ProgramUnit, usize) -> Result<BTreeMap<u32, Value>, ControlError> + Send + 'static,
    entity: impl Fn(u32, Value) -> Entity + Send + 'static,
) -> Query {
    let (number, name) = (known.number, known.name.clone());
    Query::Once(Box::new(move |unit| {
        let mut found = read(unit, number)?;
        found.retain(|id, _| wanted == 0 || *id == wanted);
        if wanted > 0 && found.is_empty() {
            return Err(UpdateError::not_found(format!("action profile {name}: there is no {what} {wanted}")));
        }
        Ok(Box::new(move || found.into_iter().map(|(id, value)| wrap(entity(id, value))).collect()))
    }))
}

/// Queries for members.
pub fn members(schema: &Arc<Schema>, wanted: &ActionProfileMember) -> Result<Vec<Query>, UpdateError> {
    let query = |(action_profile_id, known): (u32, &Profile)| {
        let schema = Arc::clone(schema);
        let read = |unit: &ProgramUnit, number| unit.pipeline.members(number);
        of_ids(known, wanted.member_id, "member", read, move |member_id, call: ActionCall| {
            let action = entry::to_call(&schema, &call);
            Entity::ActionProfileMember(ActionProfileMember { action_profile_id, member_id, action })
        })
    };
    Ok(select(&schema.profiles, wanted.action_profile_id, "action profile")?.into_iter().map(query).collect())
}

/// Queries for groups.
pub fn groups(schema: &Schema, wanted: &ActionProfileGroup) -> Result<Vec<Query>, UpdateError> {
    let query = |(action_profile_id, known): (u32, &Profile)| {
        let disallowed = known.weights_disallowed;
        let read = |unit: &ProgramUnit, number| unit.pipeline.groups(number);
        of_ids(known, wanted.group_id, "group", read, move |group_id, config: GroupConfig| {
            let member = |&(member_id, weight): &(u32, u32)| Member {
                member_id,
                weight: if disallowed { 0 } else { weight as i32 },
                watch_kind: None,
            };
            let members = config.members.iter().map(member).collect();
            let max_size = config.max_size as i32;
            Entity::ActionProfileGroup(ActionProfileGroup { action_profile_id, group_id, members, max_size })
        })
    };
    Ok(select(&schema.profiles, wanted.action_profile_id, "action profile")?.into_iter().map(query).collect())
}
