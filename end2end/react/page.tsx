// A page as a newcomer to the AI SDK writes it: `useChat` with its own defaults, on the server's address, by the cookie of who is signed in.

import { useChat } from "@ai-sdk/react";
import { isToolUIPart, lastAssistantMessageIsCompleteWithApprovalResponses, type UIMessage } from "ai";
import { useState } from "react";
import { createRoot } from "react-dom/client";

function Chat({ id, messages: known }: { id: string; messages: UIMessage[] }) {
  const [draft, setDraft] = useState("");
  const { messages, sendMessage, addToolApprovalResponse, stop, status, error } = useChat({
    id,
    messages: known,
    resume: true,
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  const send = () => {
    // From now on the address says which conversation this is.
    history.replaceState(null, "", `?chat=${id}`);
    setDraft("");
    void sendMessage({ text: draft });
  };
  // What the SDK calls stopping is leaving; the server is told to stop by an address of its own.
  const stopAnswer = () => fetch(`/api/chat/${id}/stop`, { method: "POST" }).then(() => stop());
  return (
    <main>
      <output aria-label="Status">{status}</output>
      {error && <p role="alert">{error.message}</p>}
      <ol aria-label="Messages">
        {messages.map((message) => (
          <li key={message.id} aria-label={message.role} id={message.id}>
            {message.parts.map((part, place) => {
              if (part.type === "text") return <span key={place}>{part.text}</span>;
              if (!isToolUIPart(part)) return null;
              return (
                <div key={place} role="group" aria-label={part.type} data-state={part.state}>
                  {part.state === "approval-requested" && (
                    <>
                      <button onClick={() => void addToolApprovalResponse({ id: part.approval.id, approved: true })}>Allow</button>
                      <button onClick={() => void addToolApprovalResponse({ id: part.approval.id, approved: false })}>Deny</button>
                    </>
                  )}
                </div>
              );
            })}
          </li>
        ))}
      </ol>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          send();
        }}
      >
        <input aria-label="Question" value={draft} onChange={(event) => setDraft(event.target.value)} />
        <button>Send</button>
      </form>
      <button onClick={() => void stopAnswer()}>Stop</button>
    </main>
  );
}

async function open(): Promise<void> {
  const named = new URLSearchParams(location.search).get("chat");
  const messages = named ? ((await (await fetch(`/api/chat/${named}/messages`)).json()) as UIMessage[]) : [];
  const root = document.getElementById("root");
  if (root) createRoot(root).render(<Chat id={named ?? crypto.randomUUID()} messages={messages} />);
}

void open();
