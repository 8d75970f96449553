// SPDX-License-Identifier: Apache-2.0
//! What the control plane does to action profiles: members, groups, and sets of actions that come with an entry.

use std::collections::{BTreeMap, HashSet};

use narrows_interpreter::profiles::{Group, Profile};
use narrows_interpreter::ControlError;
use narrows_program::control::{
    ActionCall, ActionSet, Entry, GroupConfig, KeyMatch, ProfileInfo, Reference, TableId, Target,
};

use crate::Pipeline;

type Result<T> = std::result::Result<T, ControlError>;

/// Sets of actions that no entry points to any more are only looked for when there are as many as this.
const UNUSED_SETS: usize = 64;

impl Pipeline {
    fn profile(&self, profile: usize) -> Result<(&ProfileInfo, &Profile)> {
        let found = self.program.profiles.get(profile).zip(self.machine.profiles.get(profile));
        found.ok_or_else(|| ControlError::NotFound { kind: "action profile with number", name: profile.to_string() })
    }

    fn profile_mut(&mut self, profile: usize) -> &mut Profile {
        &mut self.machine.change().profiles[profile]
    }

    fn member_number(&self, profile: usize, id: u32) -> Result<u32> {
        let (info, state) = self.profile(profile)?;
        state.members.get(&id).copied().ok_or_else(|| not_found("member", id, info))
    }

    fn group_number(&self, profile: usize, id: u32) -> Result<u32> {
        let (info, state) = self.profile(profile)?;
        state.groups.get(&id).copied().ok_or_else(|| not_found("group", id, info))
    }

    /// Adds what a number does to the tables of a profile, or changes it there.
    fn set_action(&mut self, profile: usize, number: u32, call: &ActionCall, is_new: bool) -> Result<()> {
        let tables = self.profile(profile)?.0.tables.clone();
        let entry = Entry { key: key_of(number), priority: 0, action: call.clone() };
        for table in tables {
            // The tables of a profile have the same actions: if the first one takes this, all do.
            match is_new {
                true => self.table_insert(table.members, &entry)?,
                false => self.table_modify(table.members, &entry)?,
            }
        }
        Ok(())
    }

    fn remove_action(&mut self, profile: usize, number: u32) -> Result<()> {
        let tables = self.profile(profile)?.0.tables.clone();
        tables.iter().try_for_each(|table| self.table_delete(table.members, &key_of(number), 0))
    }

    /// What a number does.
    fn action_of(&self, profile: usize, number: u32) -> Result<ActionCall> {
        let (info, _) = self.profile(profile)?;
        let found = info.tables.first().and_then(|table| {
            let at = table.members.0 as usize;
            self.machine.tables.get(at)?.call_of(self.program.tables.get(at)?, &key_of(number))
        });
        found.ok_or_else(|| not_found("member with number", number, info))
    }

    /// What the entries of a profile's tables point to.
    fn references(&self, profile: usize) -> Result<HashSet<(bool, u32)>> {
        let (info, _) = self.profile(profile)?;
        let tables = info.tables.iter().filter_map(|table| self.machine.tables.get(table.entries.0 as usize));
        let references = tables.flat_map(|table| table.all_words()).filter_map(Reference::of_words);
        Ok(references.map(|reference| (reference.group, reference.number)).collect())
    }

    /// Adds a member.
    ///
    /// # Errors
    /// Its id is there already; the profile is full, or its tables are used with sets of actions; an action that is not theirs.
    pub fn member_insert(&mut self, profile: usize, id: u32, call: &ActionCall) -> Result<()> {
        let (info, state) = self.profile(profile)?;
        if state.members.contains_key(&id) {
            return Err(exists("member", id, info));
        }
        if state.members.len() >= info.size {
            let message = format!("action profile {} holds at most {} members", info.name, info.size);
            return Err(ControlError::ResourceExhausted(message));
        }
        self.refuse_two_styles(profile, false)?;
        let number = self.profile_mut(profile).take_member();
        if let Err(error) = self.set_action(profile, number, call, true) {
            self.profile_mut(profile).give_member(number);
            return Err(error);
        }
        self.profile_mut(profile).members.insert(id, number);
        Ok(())
    }

    /// Changes what a member does.
    ///
    /// # Errors
    /// No such member; an action that is not its tables'.
    pub fn member_modify(&mut self, profile: usize, id: u32, call: &ActionCall) -> Result<()> {
        let number = self.member_number(profile, id)?;
        self.set_action(profile, number, call, false)
    }

    /// Removes a member.
    ///
    /// # Errors
    /// No such member; a group has it, or an entry points to it.
    pub fn member_delete(&mut self, profile: usize, id: u32) -> Result<()> {
        let number = self.member_number(profile, id)?;
        let (info, state) = self.profile(profile)?;
        let in_group = |(_, group): &(&u32, &u32)| {
            state.contents.get(group).is_some_and(|group| group.members().any(|(member, _)| member == number))
        };
        if let Some((group, _)) = state.groups.iter().find(in_group) {
            let message = format!("action profile {}: member {id} is in group {group}", info.name);
            return Err(ControlError::FailedPrecondition(message));
        }
        if self.references(profile)?.contains(&(false, number)) {
            return Err(in_use("member", id, info));
        }
        self.remove_action(profile, number)?;
        let state = self.profile_mut(profile);
        state.members.remove(&id);
        state.give_member(number);
        Ok(())
    }

    /// What each member does, by their ids.
    ///
    /// # Errors
    /// No such profile.
    pub fn members(&self, profile: usize) -> Result<BTreeMap<u32, ActionCall>> {
        let (_, state) = self.profile(profile)?;
        state.members.iter().map(|(id, number)| Ok((*id, self.action_of(profile, *number)?))).collect()
    }

    /// The group that a configuration describes, if it fits next to all others but the one that it is to replace.
    fn group_of(&self, profile: usize, config: &GroupConfig, replaced: Option<u32>) -> Result<Group> {
        let members = config.members.iter().map(|&(id, weight)| Ok((self.member_number(profile, id)?, weight)));
        let mut members = members.collect::<Result<Vec<_>>>()?;
        members.sort_unstable();
        let (info, state) = self.profile(profile)?;
        if !info.selector {
            return Err(without_selector(info));
        }
        let others = state.groups.values().filter(|number| Some(**number) != replaced);
        let taken: u64 = others.filter_map(|number| Some(state.contents.get(number)?.takes)).sum();
        check_room(info, taken, config.takes)?;
        Ok(Group { max_size: config.max_size, takes: config.takes, ..Group::new(members) })
    }

    /// Adds a group of members.
    ///
    /// # Errors
    /// Its id is there already, or a member is not; the profile is full, has no selector, or its tables are used with sets of actions.
    pub fn group_insert(&mut self, profile: usize, id: u32, config: &GroupConfig) -> Result<()> {
        let (info, state) = self.profile(profile)?;
        if state.groups.contains_key(&id) {
            return Err(exists("group", id, info));
        }
        self.refuse_two_styles(profile, false)?;
        let group = self.group_of(profile, config, None)?;
        let state = self.profile_mut(profile);
        let number = state.add_group(group);
        state.groups.insert(id, number);
        Ok(())
    }

    /// Replaces the members of a group.
    ///
    /// # Errors
    /// No such group or member; another greatest size than it has; the profile is full.
    pub fn group_modify(&mut self, profile: usize, id: u32, config: &GroupConfig) -> Result<()> {
        let number = self.group_number(profile, id)?;
        let group = self.group_of(profile, config, Some(number))?;
        let known = self.profile(profile)?.1.contents.get(&number).map_or(0, |known| known.max_size);
        if known != group.max_size {
            let message = format!("group {id}: max_size is {known} and cannot become {}", group.max_size);
            return Err(ControlError::InvalidArgument(message));
        }
        self.profile_mut(profile).contents.insert(number, group);
        Ok(())
    }

    /// Removes a group; its members stay.
    ///
    /// # Errors
    /// No such group; an entry points to it.
    pub fn group_delete(&mut self, profile: usize, id: u32) -> Result<()> {
        let number = self.group_number(profile, id)?;
        if self.references(profile)?.contains(&(true, number)) {
            return Err(in_use("group", id, self.profile(profile)?.0));
        }
        let state = self.profile_mut(profile);
        state.groups.remove(&id);
        state.remove_group(number);
        Ok(())
    }

    /// All groups, by their ids.
    ///
    /// # Errors
    /// No such profile.
    pub fn groups(&self, profile: usize) -> Result<BTreeMap<u32, GroupConfig>> {
        let (_, state) = self.profile(profile)?;
        let ids: BTreeMap<u32, u32> = state.members.iter().map(|(id, number)| (*number, *id)).collect();
        let groups = state.groups.iter().filter_map(|(id, number)| {
            let group = state.contents.get(number)?;
            let members = group.members().filter_map(|(number, weight)| Some((*ids.get(&number)?, weight)));
            Some((*id, GroupConfig { members: members.collect(), max_size: group.max_size, takes: group.takes }))
        });
        Ok(groups.collect())
    }

    /// What the entry with this key and priority takes of its profile's size by a set of actions of its own.
    #[must_use]
    pub fn taken_by_entry(&self, table: TableId, key: &[KeyMatch], priority: i32) -> u64 {
        match self.table_keep(table, key, priority) {
            Ok(Some(kept)) => match kept.state.target {
                Target::Set(set) => set.takes,
                _ => 0,
            },
            _ => 0,
        }
    }

    /// The action of an entry that points to a member, to a group, or to actions of its own, which are made; of a profile. It replaces
    /// an entry that takes `replaced` of the profile's size.
    ///
    /// # Errors
    /// No such member or group; the profile has no selector, or no room, or is used in the other style; a target without a profile.
    pub fn table_action(&mut self, profile: usize, target: &Target, replaced: u64) -> Result<ActionCall> {
        let reference = match target {
            Target::Action => {
                let message = "the actions of this table are in an action profile".to_owned();
                return Err(ControlError::InvalidArgument(message));
            }
            Target::Member(id) => Reference { number: self.member_number(profile, *id)?, group: false, id: *id },
            Target::Group(id) => Reference { number: self.group_number(profile, *id)?, group: true, id: *id },
            Target::Set(set) => Reference { number: self.add_set(profile, set, replaced)?, group: true, id: 0 },
        };
        Ok(reference.call())
    }

    fn add_set(&mut self, profile: usize, set: &ActionSet, replaced: u64) -> Result<u32> {
        let (info, _) = self.profile(profile)?;
        if !info.selector {
            return Err(without_selector(info));
        }
        self.refuse_two_styles(profile, true)?;
        if self.taken_by_sets(profile)?.saturating_sub(replaced) + set.takes > self.profile(profile)?.0.size as u64 {
            self.forget_sets(profile)?;
        }
        let taken = self.taken_by_sets(profile)?.saturating_sub(replaced);
        check_room(self.profile(profile)?.0, taken, set.takes)?;
        let mut members = Vec::with_capacity(set.actions.len());
        for (call, weight) in &set.actions {
            let number = self.profile_mut(profile).take_member();
            members.push((number, *weight));
            if let Err(error) = self.set_action(profile, number, call, true) {
                self.profile_mut(profile).give_member(number);
                members.pop();
                for (number, _) in members {
                    self.remove_action(profile, number)?;
                    self.profile_mut(profile).give_member(number);
                }
                return Err(error);
            }
        }
        let group = Group { takes: set.takes, note: set.note, ..Group::new(members) };
        Ok(self.profile_mut(profile).add_group(group))
    }

    fn taken_by_sets(&self, profile: usize) -> Result<u64> {
        let (_, state) = self.profile(profile)?;
        Ok(state.sets().filter_map(|number| Some(state.contents.get(&number)?.takes)).sum())
    }

    /// All tables of a profile are used with members and groups, or all with sets of actions, the specification says.
    fn refuse_two_styles(&mut self, profile: usize, sets: bool) -> Result<()> {
        let (info, state) = self.profile(profile)?;
        let style = match sets {
            true if state.members.is_empty() && state.groups.is_empty() => return Ok(()),
            true => "members and groups",
            false => {
                let used = self.references(profile)?;
                if !state.sets().any(|number| used.contains(&(true, number))) {
                    return Ok(());
                }
                "sets of actions that come with entries"
            }
        };
        Err(ControlError::InvalidArgument(format!("action profile {} is in use with {style}", info.name)))
    }

    /// Removes the sets of actions that no entry points to any more.
    fn forget_sets(&mut self, profile: usize) -> Result<()> {
        let used = self.references(profile)?;
        let unused = self.profile(profile)?.1.sets().filter(|number| !used.contains(&(true, *number)));
        for number in unused.collect::<Vec<_>>() {
            if let Some(group) = self.profile_mut(profile).remove_group(number) {
                for (member, _) in group.members() {
                    self.remove_action(profile, member)?;
                    self.profile_mut(profile).give_member(member);
                }
            }
        }
        Ok(())
    }

    /// The same in all profiles where there may be many. Not while updates may be taken back, since an entry that comes back needs its
    /// set.
    ///
    /// # Errors
    /// None that its caller can cause.
    pub fn tidy_profiles(&mut self) -> Result<()> {
        for profile in 0..self.program.profiles.len() {
            let sets = self.profile(profile)?.1.sets().count();
            if sets >= UNUSED_SETS && sets > 2 * self.references(profile)?.len() {
                self.forget_sets(profile)?;
            }
        }
        Ok(())
    }

    /// The number of the profile that implements a table.
    #[must_use]
    pub fn profile_of(&self, table: TableId) -> Option<usize> {
        let implements = |info: &ProfileInfo| info.tables.iter().any(|known| known.entries == table);
        self.program.profiles.iter().position(implements)
    }

    /// Where the action of an entry of a table is.
    #[must_use]
    pub fn target(&self, table: TableId, call: &ActionCall) -> Target {
        let profile = self.profile_of(table);
        let words: Vec<u64> = call.params.iter().map(|value| *value as u64).collect();
        match (profile, Reference::of_words(&words)) {
            (Some(profile), Some(Reference { number, group: true, id: 0 })) => {
                let group = self.machine.profiles[profile].contents.get(&number).cloned().unwrap_or_default();
                let action = |(number, weight)| Some((self.action_of(profile, number).ok()?, weight));
                let actions = group.members().filter_map(action).collect();
                Target::Set(ActionSet { actions, takes: group.takes, note: group.note })
            }
            (Some(_), Some(Reference { group: true, id, .. })) => Target::Group(id),
            (Some(_), Some(Reference { id, .. })) => Target::Member(id),
            _ => Target::Action,
        }
    }
}

/// What finds the action of a member.
fn key_of(number: u32) -> Vec<KeyMatch> {
    vec![KeyMatch::Exact(number.into())]
}

fn not_found(kind: &'static str, id: u32, info: &ProfileInfo) -> ControlError {
    ControlError::NotFound { kind, name: format!("{id} in action profile {}", info.name) }
}

fn exists(kind: &str, id: u32, info: &ProfileInfo) -> ControlError {
    ControlError::AlreadyExists(format!("action profile {}: {kind} {id} is already there", info.name))
}

fn in_use(kind: &str, id: u32, info: &ProfileInfo) -> ControlError {
    ControlError::FailedPrecondition(format!("action profile {}: an entry points to {kind} {id}", info.name))
}

fn without_selector(info: &ProfileInfo) -> ControlError {
    ControlError::InvalidArgument(format!("action profile {} has no selector, and so no groups", info.name))
}

fn check_room(info: &ProfileInfo, taken: u64, more: u64) -> Result<()> {
    if taken + more > info.size as u64 {
        let message = format!("action profile {}: its groups have at most {} in all", info.name, info.size);
        return Err(ControlError::ResourceExhausted(message));
    }
    Ok(())
}
