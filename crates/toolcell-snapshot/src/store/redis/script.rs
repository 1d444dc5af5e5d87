//! What has to happen at once, as scripts. `redis.call` ends a script at the first failure; each script therefore
//! looks first and writes last, and a server that is full refuses its first write.

use redis::Script;
use std::sync::LazyLock;

/// A script with its text, which a server that has forgotten it needs.
pub(super) struct Lua {
    pub(super) text: &'static str,
    pub(super) script: LazyLock<Script>,
}

/// Makes an object visible.
///
/// Keys: the object, the index, its parts. Arguments: bytes, id, name in the index, the last part. Answers 1, 0 if the
/// object is there, -1 if a part has expired.
pub(super) static PUBLISH: Lua = Lua { text: PUBLISH_TEXT, script: LazyLock::new(|| Script::new(PUBLISH_TEXT)) };
const PUBLISH_TEXT: &str = "
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
for i = 3, #KEYS - 1 do
  if redis.call('EXISTS', KEYS[i]) == 0 then return -1 end
end
if #KEYS > 2 then redis.call('SET', KEYS[#KEYS], ARGV[4]) end
for i = 3, #KEYS - 1 do redis.call('PERSIST', KEYS[i]) end
redis.call('ZADD', KEYS[2], 0, ARGV[3])
redis.call('HSET', KEYS[1], 'bytes', ARGV[1], 'id', ARGV[2])
return 1";

/// Removes an object, if it still is the one with this id.
///
/// Keys: the object, the index, its parts. Arguments: id, name in the index. Answers 1, or 0 if it is another.
pub(super) static REMOVE: Lua = Lua { text: REMOVE_TEXT, script: LazyLock::new(|| Script::new(REMOVE_TEXT)) };
const REMOVE_TEXT: &str = "
local id = redis.call('HGET', KEYS[1], 'id')
if id and id ~= ARGV[1] then return 0 end
for i = 3, #KEYS do redis.call('UNLINK', KEYS[i]) end
redis.call('ZREM', KEYS[2], ARGV[2])
redis.call('DEL', KEYS[1])
return 1";

/// Reads a head of a bounded size.
///
/// Keys: the head. Arguments: most bytes. Answers its size, version and data; only its size if it is larger.
pub(super) static HEAD: Lua = Lua { text: HEAD_TEXT, script: LazyLock::new(|| Script::new(HEAD_TEXT)) };
const HEAD_TEXT: &str = "
local bytes = redis.call('HSTRLEN', KEYS[1], 'data')
if bytes > tonumber(ARGV[1]) then return {bytes, false, false} end
return {bytes, redis.call('HGET', KEYS[1], 'version'), redis.call('HGET', KEYS[1], 'data')}";

/// Replaces a head, if it is the expected one.
///
/// Keys: the head. Arguments: expected version or nothing, version, data. Answers 1, or 0 if it is another.
pub(super) static EXCHANGE: Lua = Lua { text: EXCHANGE_TEXT, script: LazyLock::new(|| Script::new(EXCHANGE_TEXT)) };
const EXCHANGE_TEXT: &str = "
if (redis.call('HGET', KEYS[1], 'version') or '') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[2], 'data', ARGV[3])
return 1";
