//! Errors of single updates, and how a batch of them is reported.
// SPDX-License-Identifier: Apache-2.0
use narrows_pipeline::ControlError;
use narrows_proto::{google::rpc, p4::v1 as p4};
use prost::Message;
use tonic::{Code, Status};

/// Why one update was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateError {
    /// Canonical code.
    pub code: Code,
    /// What is wrong, and what is allowed.
    pub message: String,
}

impl UpdateError {
    /// An error with any canonical code.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        UpdateError { code, message: message.into() }
    }

    /// INVALID_ARGUMENT.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// NOT_FOUND.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::NotFound, message)
    }

    /// OUT_OF_RANGE.
    pub fn out_of_range(message: impl Into<String>) -> Self {
        Self::new(Code::OutOfRange, message)
    }

    /// UNIMPLEMENTED.
    pub fn unimplemented(message: impl Into<String>) -> Self {
        Self::new(Code::Unimplemented, message)
    }
}

impl From<ControlError> for UpdateError {
    fn from(error: ControlError) -> Self {
        let code = match &error {
            ControlError::NotFound { .. } => Code::NotFound,
            ControlError::InvalidArgument(_) => Code::InvalidArgument,
            ControlError::AlreadyExists(_) => Code::AlreadyExists,
            ControlError::ResourceExhausted(_) => Code::ResourceExhausted,
            ControlError::PermissionDenied(_) => Code::PermissionDenied,
            ControlError::FailedPrecondition(_) => Code::FailedPrecondition,
            ControlError::OutOfRange { .. } => Code::OutOfRange,
        };
        UpdateError::new(code, error.to_string())
    }
}

fn any(error: p4::Error) -> prost_types::Any {
    prost_types::Any { type_url: "type.googleapis.com/p4.v1.Error".into(), value: error.encode_to_vec() }
}

impl From<UpdateError> for Status {
    fn from(error: UpdateError) -> Self {
        Status::new(error.code, error.message)
    }
}

/// Bytes of the details of an RPC's error: they travel in a header, and clients refuse long ones.
const DETAILS_BYTES: usize = 6 << 10;

/// The RPC's result for the results of its updates, in order: as the specification wants it, UNKNOWN with one
/// `p4.v1.Error` for each update when any failed.
pub fn batch_status(results: &[Result<(), UpdateError>]) -> Result<(), Status> {
    let failed = results.iter().filter(|result| result.is_err()).count();
    let Some(first) = results.iter().find_map(|result| result.as_ref().err()) else {
        return Ok(());
    };
    let details = results.iter().map(|result| {
        let error = match result {
            Ok(()) => p4::Error::default(),
            Err(error) => p4::Error {
                canonical_code: error.code as i32,
                message: error.message.clone(),
                space: "narrows-softswitch".into(),
                ..Default::default()
            },
        };
        any(error)
    });
    let mut details: Vec<prost_types::Any> = details.collect();
    if details.iter().map(Message::encoded_len).sum::<usize>() > DETAILS_BYTES {
        // A code for each update is what clients need; a batch too long for that has its first error only.
        let code = |result: &Result<(), UpdateError>| result.as_ref().map_or_else(|error| error.code as i32, |()| 0);
        let codes = results.iter().map(|result| p4::Error { canonical_code: code(result), ..Default::default() });
        details = codes.map(any).collect();
        if details.iter().map(Message::encoded_len).sum::<usize>() > DETAILS_BYTES {
            details.clear();
        }
    }
    let message = format!("{failed} of {} updates failed, the first: {}", results.len(), first.message);
    let status = rpc::Status { code: Code::Unknown as i32, message: message.clone(), details };
    Err(Status::with_details(Code::Unknown, message, status.encode_to_vec().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_fit_into_a_header() {
        for (count, expected) in [(40, 40), (100, 100), (5_000, 0)] {
            let results: Vec<_> = (0..count).map(|_| Err(UpdateError::not_found("m".repeat(90)))).collect();
            let status = batch_status(&results).expect_err("failed");
            assert!(status.details().len() <= DETAILS_BYTES + 512, "{count} updates");
            let details = rpc::Status::decode(status.details()).expect("google.rpc.Status").details;
            assert_eq!(details.len(), expected);
            let code =
                |any: &prost_types::Any| p4::Error::decode(any.value.as_slice()).expect("p4.v1.Error").canonical_code;
            assert!(details.iter().all(|any| code(any) == Code::NotFound as i32));
        }
    }

    #[test]
    fn every_update_has_its_error() {
        assert!(batch_status(&[Ok(()), Ok(())]).is_ok());
        let status = batch_status(&[Ok(()), Err(UpdateError::not_found("no table 7"))]).expect_err("one failed");
        assert_eq!(status.code(), Code::Unknown);
        let details = rpc::Status::decode(status.details()).expect("google.rpc.Status").details;
        let errors: Vec<p4::Error> =
            details.iter().map(|any| p4::Error::decode(any.value.as_slice()).expect("p4.v1.Error")).collect();
        let codes: Vec<i32> = errors.iter().map(|error| error.canonical_code).collect();
        assert_eq!(codes, vec![Code::Ok as i32, Code::NotFound as i32]);
        assert_eq!(errors[1].message, "no table 7");
    }
}
