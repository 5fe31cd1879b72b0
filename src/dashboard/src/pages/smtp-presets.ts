import type { TlsMode } from "../api-types.ts";

export interface SmtpPreset {
  name: string;
  host: string;
  port: number;
  tls: TlsMode;
  /** If the provider prescribes one. */
  username?: string;
}

/** Mail submission servers, as their providers document them. */
export const PRESETS: readonly SmtpPreset[] = [
  {
    name: "Amazon SES (eu-west-1)",
    host: "email-smtp.eu-west-1.amazonaws.com",
    port: 587,
    tls: "starttls",
  },
  {
    name: "Amazon SES (us-east-1)",
    host: "email-smtp.us-east-1.amazonaws.com",
    port: 587,
    tls: "starttls",
  },
  { name: "Brevo", host: "smtp-relay.brevo.com", port: 587, tls: "starttls" },
  { name: "Fastmail", host: "smtp.fastmail.com", port: 465, tls: "implicit" },
  { name: "Gmail", host: "smtp.gmail.com", port: 587, tls: "starttls" },
  { name: "Google Workspace relay", host: "smtp-relay.gmail.com", port: 587, tls: "starttls" },
  { name: "Mailgun", host: "smtp.mailgun.org", port: 587, tls: "starttls" },
  { name: "Mailgun (EU)", host: "smtp.eu.mailgun.org", port: 587, tls: "starttls" },
  { name: "Mailjet", host: "in-v3.mailjet.com", port: 587, tls: "starttls" },
  { name: "Microsoft 365", host: "smtp.office365.com", port: 587, tls: "starttls" },
  { name: "Postmark", host: "smtp.postmarkapp.com", port: 587, tls: "starttls" },
  { name: "Resend", host: "smtp.resend.com", port: 465, tls: "implicit", username: "resend" },
  { name: "SendGrid", host: "smtp.sendgrid.net", port: 587, tls: "starttls", username: "apikey" },
  { name: "Scaleway", host: "smtp.tem.scaleway.com", port: 587, tls: "starttls" },
];
