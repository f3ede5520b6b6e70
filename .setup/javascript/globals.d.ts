// In V8 since 11.4; TypeScript's library does not have it yet.
interface JSON {
  rawJSON(text: string): unknown;
}
