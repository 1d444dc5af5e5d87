//! Patterns over sequences: of characters, of words, of a path's names. Some items of a pattern are spans, which take
//! any number of elements; every other item takes exactly one.

/// Whether the elements fit the pattern. Each stretch between two spans is taken at its earliest place, which is as good
/// as any later one, so the cost is bounded by the product of the lengths.
pub(super) fn matches<P, I: Iterator + Clone>(
    mut pattern: &[P],
    mut elements: I,
    is_span: impl Fn(&P) -> bool,
    fits: impl Fn(&P, I::Item) -> bool,
) -> bool {
    let mut retry: Option<(&[P], I)> = None;
    loop {
        match pattern.split_first() {
            Some((item, rest)) if is_span(item) => {
                if rest.is_empty() {
                    return true;
                }
                retry = Some((rest, elements.clone()));
                pattern = rest;
                continue;
            }
            Some((item, rest)) => {
                let mut ahead = elements.clone();
                // Where the elements have run out, giving more of them to a span does not help.
                let Some(element) = ahead.next() else { return false };
                if fits(item, element) {
                    (pattern, elements) = (rest, ahead);
                    continue;
                }
            }
            None if elements.clone().next().is_none() => return true,
            None => {}
        }
        let Some((after, from)) = &mut retry else { return false };
        if from.next().is_none() {
            return false;
        }
        (pattern, elements) = (after, from.clone());
    }
}

/// Whether some sequence fits both patterns, taking it that a span of one can always be an element that the other
/// wants. `fits` says whether some element fits both items. The cost is the product of the lengths.
pub(super) fn meet<A, B>(
    first: &[A],
    second: &[B],
    first_is_span: impl Fn(&A) -> bool,
    second_is_span: impl Fn(&B) -> bool,
    fits: impl Fn(&A, &B) -> bool,
) -> bool {
    // At which places of `second` one can be, having come so far in `first`.
    let mut places = vec![true];
    places.extend(second.iter().scan(true, |open, item| {
        *open = *open && second_is_span(item);
        Some(*open)
    }));
    for item in first {
        let spans = first_is_span(item);
        let mut next = Vec::with_capacity(places.len());
        let mut left: Option<(&B, bool, bool)> = None;
        for (place, reached) in places.iter().enumerate() {
            let here = second.get(place);
            let stays = *reached && (spans || here.is_some_and(&second_is_span));
            let comes = left.is_some_and(|(before, reached_before, next_before)| {
                if spans || second_is_span(before) { next_before } else { reached_before && fits(item, before) }
            });
            next.push(stays || comes);
            left = here.map(|item| (item, *reached, stays || comes));
        }
        if !next.contains(&true) {
            return false;
        }
        places = next;
    }
    places.last().copied().unwrap_or_default()
}
