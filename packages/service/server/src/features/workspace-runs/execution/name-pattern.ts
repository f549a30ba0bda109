const BITS = 32;

/**
 * A pattern for one name: `*` stands for any text, `?` for one character. Looks at each character of the name once, and
 * follows all places of the pattern that may come next together, as bits: a pattern can make it take no longer than
 * another one of its length.
 */
export class NamePattern {
  readonly #matchesHidden: boolean;
  /** Places after which the pattern has a `*`. */
  readonly #stars: Uint32Array;
  /** Places that `?` is at. */
  readonly #anyCharacter: Uint32Array;
  /** Places that each character is at, those of `?` included. */
  readonly #characters = new Map<string, Uint32Array>();
  /** Characters of the pattern without its stars, hence the place after its end. */
  readonly #length: number;

  constructor(pattern: string) {
    this.#matchesHidden = pattern.startsWith('.');
    const characters = [...pattern];
    this.#length = characters.filter((character) => character !== '*').length;
    this.#stars = this.#noPlaces();
    this.#anyCharacter = this.#noPlaces();
    let place = 0;
    for (const character of characters) {
      if (character === '*') set(this.#stars, place);
      else {
        if (character === '?') set(this.#anyCharacter, place);
        else set(this.#placesOf(character), place);
        place += 1;
      }
    }
    for (const places of this.#characters.values()) {
      for (const [word, bits] of this.#anyCharacter.entries()) places[word] = (places[word] ?? 0) | bits;
    }
  }

  matches(name: string): boolean {
    if (name.startsWith('.') && !this.#matchesHidden) return false;
    if (this.#length > name.length) return false;
    const places = this.#noPlaces();
    set(places, 0);
    for (const character of name) {
      const fitting = this.#characters.get(character) ?? this.#anyCharacter;
      let carried = 0;
      for (let word = 0; word < places.length; word += 1) {
        const [before, stars] = [places[word] ?? 0, this.#stars[word] ?? 0];
        const passed = before & (fitting[word] ?? 0);
        places[word] = (passed << 1) | carried | (before & stars);
        carried = passed >>> (BITS - 1);
      }
    }
    return has(places, this.#length);
  }

  #placesOf(character: string): Uint32Array {
    const places = this.#characters.get(character) ?? this.#noPlaces();
    this.#characters.set(character, places);
    return places;
  }

  #noPlaces(): Uint32Array {
    return new Uint32Array(Math.floor(this.#length / BITS) + 1);
  }
}

function set(places: Uint32Array, place: number): void {
  const word = Math.floor(place / BITS);
  places[word] = (places[word] ?? 0) | (1 << (place % BITS));
}

function has(places: Uint32Array, place: number): boolean {
  return ((places[Math.floor(place / BITS)] ?? 0) & (1 << (place % BITS))) !== 0;
}
