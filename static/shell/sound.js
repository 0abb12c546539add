// A short sound when an ask arrives: a setting of this device, off at first. Two notes from Web Audio, no file.

const KEY = "awmweb-sound";
const NOTES = [660, 880];
const NOTE_S = 0.14;
const VOLUME = 0.12;

/** Return whether the sound is on for this device. */
export function isOn() {
  try {
    return localStorage.getItem(KEY) === "on";
  } catch {
    return false; // storage is closed
  }
}

/**
 * Turn the sound on or off on this device. Return false if the device stores nothing.
 * @param {boolean} on
 */
export function turn(on) {
  try {
    localStorage.setItem(KEY, on ? "on" : "off");
    return true;
  } catch {
    return false;
  }
}

let audio = null;

/** Play the sound if it is on. Browsers are silent until a person has pressed something on the page. */
export function chime() {
  if (!isOn() || !globalThis.AudioContext) return false;
  audio ??= new AudioContext();
  NOTES.forEach((pitch, n) => {
    const [note, gain, at] = [audio.createOscillator(), audio.createGain(), audio.currentTime + n * NOTE_S];
    note.frequency.value = pitch;
    gain.gain.setValueAtTime(VOLUME, at);
    gain.gain.exponentialRampToValueAtTime(0.001, at + NOTE_S);
    note.connect(gain).connect(audio.destination);
    note.start(at);
    note.stop(at + NOTE_S);
  });
  return true;
}

/** Bind the switch in the menu. */
export function startSound() {
  const button = document.querySelector("[data-sound]");
  if (!button) return;
  const show = () => {
    button.setAttribute("aria-pressed", String(isOn()));
    button.querySelector("[data-say]").textContent = isOn() ? "on" : "off";
  };
  button.addEventListener("click", () => {
    turn(!isOn());
    show();
    chime();
  });
  show();
}
