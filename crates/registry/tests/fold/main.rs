//! The fold and its files under random crawls with hardly any RAM, crashes and damage.

mod against_model;
mod damage;
mod fleet;
mod model;
mod ready;
mod redivide;
