//! What has to happen at once, as scripts of the server.

use redis::Script;

/// All scripts.
pub(super) struct Scripts {
    pub(super) publish: Script,
    pub(super) delete: Script,
    pub(super) replace_head: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self { publish: Script::new(PUBLISH), delete: Script::new(DELETE), replace_head: Script::new(REPLACE_HEAD) }
    }
}

/// 1: the object is there; 0: it was there before; -1: a part is missing.
const PUBLISH: &str = "
local meta, index = KEYS[1], KEYS[2]
local member, parts, bytes, upload, prefix, inline = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5], ARGV[6]
if redis.call('EXISTS', meta) == 1 then return 0 end
if parts == 1 then
  redis.call('SET', prefix .. '0', inline)
else
  for part = 0, parts - 1 do
    if redis.call('EXISTS', prefix .. part) == 0 then return -1 end
  end
  for part = 0, parts - 1 do redis.call('PERSIST', prefix .. part) end
end
redis.call('HSET', meta, 'parts', parts, 'bytes', bytes, 'upload', upload)
redis.call('ZADD', index, 0, member)
return 1";

/// 1: it is gone; 0: it was gone before.
const DELETE: &str = "
local found = redis.call('HMGET', KEYS[1], 'parts', 'upload')
redis.call('ZREM', KEYS[2], ARGV[1])
if not found[1] then return 0 end
for part = 0, tonumber(found[1]) - 1 do redis.call('DEL', ARGV[2] .. found[2] .. ':' .. part) end
redis.call('DEL', KEYS[1])
return 1";

/// 1: replaced; 0: it is another one.
const REPLACE_HEAD: &str = "
local there = redis.call('HGET', KEYS[1], 'version')
if ARGV[1] == '' then
  if there then return 0 end
elseif there ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'version', ARGV[2], 'data', ARGV[3])
return 1";
