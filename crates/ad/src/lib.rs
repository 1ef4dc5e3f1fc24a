//! From machine instructions to derivatives: lifting, AD IR, rules, recording.
