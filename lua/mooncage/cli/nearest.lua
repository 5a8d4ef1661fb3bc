-- nearest.lua: the name a user most likely meant, or nil when none is near enough.

---Edit distance in which swapping two neighbours counts once ("memroy" is one away from "memory").
local function distance(a, b)
  local before, last, now = {}, {}, {}
  for j = 0, #b do last[j] = j end
  for i = 1, #a do
    now[0] = i
    for j = 1, #b do
      local same = a:byte(i) == b:byte(j)
      local best = math.min(last[j] + 1, now[j - 1] + 1, last[j - 1] + (same and 0 or 1))
      local swapped = i > 1 and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j)
      if swapped then best = math.min(best, before[j - 2] + 1) end
      now[j] = best
    end
    before, last, now = last, now, before
  end
  return last[#b]
end

---@param word string
---@param names string[]
---@return string?
local function nearest(word, names)
  word = word:lower()
  if #word > 64 then return nil end
  local allowed = math.max(1, math.floor(#word / 3))
  local best, best_distance
  for _, name in ipairs(names) do
    local lower = name:lower()
    local d = distance(word, lower)
    if #word >= 3 and lower:sub(1, #word) == word then d = math.min(d, allowed) end
    if d <= allowed and (not best or d < best_distance) then best, best_distance = name, d end
  end
  return best
end

return nearest
