"""Sequences to sequences: a packed bidirectional LSTM, a decoder that attends, masks in place."""


def train(lib, compiled):
    nn, F = lib.nn, lib.nn.functional
    rnn = nn.utils.rnn
    padding, words, width = 0, 9, 6

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(words, width, padding_idx=padding)
            self.lstm = nn.LSTM(width, width, bidirectional=True, batch_first=True)

        def forward(self, source, lengths):
            packed = rnn.pack_padded_sequence(
                self.words(source), lengths, batch_first=True, enforce_sorted=False
            )
            keys, state = self.lstm(packed)
            keys, _ = rnn.pad_packed_sequence(keys, batch_first=True, total_length=source.size(1))
            return keys, tuple(each.view(2, -1, width).sum(0, keepdim=True) for each in state)

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(words, width)
            self.lstm = nn.LSTM(width, width, batch_first=True)
            self.key, self.output = nn.Linear(2 * width, width), nn.Linear(3 * width, words)

        def forward(self, target, state, keys, mask):
            before = F.pad(target[:, :-1], (1, 0), value=1)
            hidden, _ = self.lstm(self.words(before), state)
            scores = lib.bmm(hidden, self.key(keys).transpose(1, 2))
            scores.data.masked_fill_(~mask[:, None], -float("inf"))
            context = lib.bmm(F.softmax(scores, dim=-1), keys)
            return F.log_softmax(self.output(lib.cat((hidden, context), dim=-1)), dim=-1)

    lib.manual_seed(4)
    encoder, decoder = Encoder(), Decoder()
    parameters = [*encoder.parameters(), *decoder.parameters()]
    optimizer = lib.optim.Adagrad(parameters, lr=0.05)
    criterion = nn.NLLLoss(ignore_index=padding)

    def step(source, lengths, target):
        encoder.zero_grad()
        decoder.zero_grad()
        keys, state = encoder(source, lengths)
        scores = decoder(target, state, keys, source != padding)
        loss = criterion(scores.flatten(0, 1), target.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        return loss

    step, seen = compiled(step), []
    lengths = [3, 1, 2]
    mask = lib.arange(3) < lib.tensor(lengths)[:, None]
    for _ in range(4):
        source = lib.randint(2, words, (3, 3)).masked_fill(~mask, padding)
        seen.append(step(source, lengths, source.flip(1)))
    return seen
