//! The devices of one switch: each has a program, clients and mastership of its own.
// SPDX-License-Identifier: Apache-2.0
use std::sync::Arc;

use tonic::Status;

use super::control::Control;

/// All devices, in the order of their numbers in the switch.
#[derive(Clone)]
pub struct Devices {
    first: Arc<Control>,
    others: Arc<[Arc<Control>]>,
}

impl Devices {
    /// Those that have these controls.
    pub fn new(first: Arc<Control>, others: Vec<Arc<Control>>) -> Self {
        Devices { first, others: others.into() }
    }

    /// The device that has all ports which no other one has.
    pub fn first(&self) -> &Arc<Control> {
        &self.first
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Control>> {
        std::iter::once(&self.first).chain(self.others.iter())
    }

    /// The device with an id. Errors: NOT_FOUND.
    pub fn find(&self, id: u64) -> Result<&Arc<Control>, Status> {
        self.iter().find(|control| control.device_id == id).ok_or_else(|| {
            let known = self.iter().map(|control| control.device_id.to_string()).collect::<Vec<_>>();
            Status::not_found(format!("device {id}: the switch has {}", known.join(", ")))
        })
    }
}
