"""a small Whisper's loss; spectrograms, languages, texts by beams and samples, times of words"""

import numpy as np
import torch

PACKAGE = "openai-whisper"


def a_whisper(words, frames, length):
    import driver
    import whisper

    dims = whisper.ModelDimensions(
        n_mels=80, n_audio_ctx=frames, n_audio_state=16, n_audio_head=2, n_audio_layer=2,
        n_vocab=words, n_text_ctx=length, n_text_state=16, n_text_head=2, n_text_layer=2,
    )  # fmt: skip
    model = whisper.model.Whisper(dims)
    # Whisper leaves them as they come.
    torch.nn.init.zeros_(model.decoder.positional_embedding)
    driver.fill(model)
    return model


def sound(seconds):
    """A tone that rises and falls, with some noise."""
    at = np.arange(int(16000 * seconds)) / 16000
    noise = np.random.default_rng(0).standard_normal(at.size)
    return (0.3 * np.sin(2000 * at + 300 * np.sin(3 * at)) + 0.05 * noise).astype("float32")


def build():
    import whisper

    tokens = torch.from_numpy(np.random.default_rng(1).integers(0, 64, (2, 9)))
    heard = torch.from_numpy(np.stack([sound(0.4), sound(0.4)[::-1].copy()]))
    mel = whisper.log_mel_spectrogram(heard)

    def loss(model, mel, tokens):
        logits = model(mel, tokens[:, :-1])
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    return a_whisper(64, 20, 12), (mel, tokens), loss


def more(model, inputs):
    import whisper
    from whisper.tokenizer import get_tokenizer

    mel, tokens = inputs
    model.eval()
    found = {"mel": mel, "features": model.embed_audio(mel)}
    found["logits"] = model.logits(tokens, found["features"])
    cache, hooks = model.install_kv_cache_hooks()
    found["cached"] = torch.stack(
        [model.decoder(tokens[:, at : at + 1], found["features"], cache) for at in range(6)]
    )
    for each in hooks:
        each.remove()

    # A model of many languages, for pieces of 30 seconds.
    model = a_whisper(51865, 1500, 32).eval()
    heard = sound(3)
    padded = whisper.pad_or_trim(torch.from_numpy(heard))
    mel = whisper.log_mel_spectrogram(padded)
    _, chances = model.detect_language(mel)
    found["languages"] = torch.tensor([chances[each] for each in sorted(chances)])
    for name, options in {
        "greedy": {}, "translated": {"task": "translate"},
        "beams": {"beam_size": 3, "patience": 1.5},
        "sampled": {"temperature": 0.7, "best_of": 2},
        "without times": {"without_timestamps": True, "length_penalty": 0.5, "prompt": "Of sound"},
    }.items():  # fmt: skip
        torch.manual_seed(0)
        said = model.decode(
            mel, whisper.DecodingOptions(language="en", fp16=False, sample_len=8, **options)
        )
        found[name] = torch.tensor(said.tokens)
        found[f"{name} chance"] = torch.tensor([said.avg_logprob, said.no_speech_prob])
    said = model.transcribe(
        heard, language="en", fp16=False, temperature=0.0, sample_len=8, word_timestamps=True,
        logprob_threshold=None, compression_ratio_threshold=None, no_speech_threshold=None,
        condition_on_previous_text=False,
    )  # fmt: skip
    found["transcribed"] = torch.tensor([len(said["segments"]), *said["text"].encode()])
    tokenizer = get_tokenizer(multilingual=True, language="en", task="transcribe")
    words = whisper.timing.find_alignment(
        model, tokenizer, tokenizer.encode(" a tone that rises"), mel, 300
    )
    found["times"] = torch.tensor([[each.start, each.end] for each in words])
    found["word chances"] = torch.tensor([each.probability for each in words])
    return found
